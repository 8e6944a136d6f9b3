//! Ends of jobs that have left memory, for jobs that depend on them.

use gpool_model::array::ArrayEnds;
use gpool_model::command::ArchivedDependency;
use gpool_model::{Dependency, JobId, Timestamp};
use gpool_world::World;

/// Ends of jobs that have left memory, as the caller looked them up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownEnds<'a> {
    pub jobs: &'a [ArchivedDependency],
    /// Arrays, with the end of each element.
    pub arrays: &'a [(JobId, ArrayEnds)],
}

impl KnownEnds<'_> {
    pub const NONE: Self = Self { jobs: &[], arrays: &[] };

    pub fn of(&self, job: JobId) -> Option<&ArchivedDependency> {
        self.jobs.iter().find(|ended| ended.job == job)
    }

    /// The earliest start that follows from the dependencies.
    pub fn begin_after(&self, world: &World, after: &[Dependency]) -> Option<Timestamp> {
        let of_ended = |it: &Dependency| it.begin(self.of(it.job)?.began_at);
        world.begin_after(after).max(after.iter().filter_map(of_ended).max())
    }
}
