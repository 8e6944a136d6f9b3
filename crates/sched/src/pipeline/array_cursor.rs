//! The positions in arrays while a plan is made: an array is in the queue once, and starts one
//! element after the other, up to its own limit.

use std::collections::BTreeMap;

use gpool_model::{Attempt, JobId, JobNumber, Reason};
use gpool_world::{JobRow, World};

/// The elements of each array that a plan has started, or planned a start for.
#[derive(Debug, Default)]
pub(crate) struct ArrayCursor {
    by_array: BTreeMap<JobNumber, ArrayProgress>,
}

#[derive(Debug, Clone, Copy, Default)]
struct ArrayProgress {
    /// The position of the last element that the array's row started.
    last: Option<u32>,
    /// Elements that the array's row started.
    n_of_array: u32,
    n_started: u32,
    /// Elements with a planned start: they take a place in the array's limit.
    n_planned: u32,
}

impl ArrayCursor {
    /// Returns why no further element of a job's array may start; `None` if one may, or the job is
    /// in no array.
    pub fn full(&self, world: &World, job: JobId) -> Option<Reason> {
        if world.n_arrays() == 0 {
            return None;
        }
        let row = world.array(job.number)?;
        let most = row.job.array.as_ref()?.max_parallel?;
        let of_plan = |taken: &ArrayProgress| taken.n_started + taken.n_planned;
        let n_of_plan = self.by_array.get(&job.number).map_or(0, of_plan);
        let running = world.n_live_of(job.number).saturating_add(n_of_plan);
        (running >= most).then_some(Reason::GroupParallelLimit { running, most })
    }

    /// Returns the job that starts next for a row of the queue, an array's next element, and its
    /// attempt.
    pub fn next(&self, row: &JobRow) -> (JobId, Attempt) {
        let of_array = || {
            let array = row.job.array.as_ref()?;
            let last = self.by_array.get(&row.job.id.number).and_then(|taken| taken.last);
            let position = array.unstarted.next_after(last)?;
            let element = row.spec.array.as_ref()?.indexes.at(position)?;
            Some((JobId { element: Some(element), ..row.job.id }, array.attempt_of(position)))
        };
        of_array().unwrap_or((row.job.id, row.job.attempt))
    }

    /// Counts a start of a row. Returns whether the row has further elements.
    pub fn take(&mut self, row: &JobRow) -> bool {
        if row.job.id.element.is_none() && row.job.array.is_none() {
            return false;
        }
        let taken = self.by_array.entry(row.job.id.number).or_default();
        taken.n_started += 1;
        let Some(array) = &row.job.array else { return false };
        taken.last = array.unstarted.next_after(taken.last);
        taken.n_of_array += 1;
        taken.n_of_array < array.unstarted.len()
    }

    /// Counts a planned start of a row: other elements must not take its place in the limit.
    pub fn plan(&mut self, row: &JobRow) {
        if row.job.id.element.is_some() || row.job.array.is_some() {
            self.by_array.entry(row.job.id.number).or_default().n_planned += 1;
        }
    }

    /// Number of jobs that a row stands for.
    pub fn n_left(&self, row: &JobRow) -> u64 {
        let Some(array) = &row.job.array else { return 1 };
        let taken = self.by_array.get(&row.job.id.number).map_or(0, |taken| taken.n_of_array);
        u64::from(array.unstarted.len() - taken)
    }
}
