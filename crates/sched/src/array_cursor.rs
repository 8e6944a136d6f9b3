//! ArrayCursor of arrays while a plan is made: an array stands in the queue once, and gives one
//! element after the other, as many as its own limit lets run.

use std::collections::BTreeMap;

use gpool_model::{Attempt, JobId, JobNumber, Reason};
use gpool_world::{JobRow, World};

/// What a plan has taken of each array so far.
#[derive(Debug, Default)]
pub(crate) struct ArrayCursor {
    by_array: BTreeMap<JobNumber, Taken>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    /// The position of the last one that stood for the array.
    last: Option<u32>,
    /// How many of the array stood for it.
    n_of_array: u32,
    n_started: u32,
}

impl ArrayCursor {
    /// Why nothing more of the array that a job belongs to may start; `None` if it may, or belongs
    /// to none.
    pub fn full(&self, world: &World, job: JobId) -> Option<Reason> {
        if world.n_arrays() == 0 {
            return None;
        }
        let row = world.array(job.number)?;
        let most = row.job.array.as_ref()?.max_parallel?;
        let n_started = self.by_array.get(&job.number).map_or(0, |taken| taken.n_started);
        let running = world.n_live_of(job.number).saturating_add(n_started);
        (running >= most).then_some(Reason::GroupParallelLimit { running, most })
    }

    /// Which job would start, as which attempt, for a row of the queue: an array's next element.
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

    /// Takes note that the next one of a row starts; says whether the row has more.
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

    /// How many jobs a row still stands for.
    pub fn n_left(&self, row: &JobRow) -> u64 {
        let Some(array) = &row.job.array else { return 1 };
        let taken = self.by_array.get(&row.job.id.number).map_or(0, |taken| taken.n_of_array);
        u64::from(array.unstarted.len() - taken)
    }
}
