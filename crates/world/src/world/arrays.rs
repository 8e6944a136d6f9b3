//! Arrays: one row for all elements that have not started, and a row for each element in progress.
//! The functions here keep each element in exactly one place.

use std::sync::Arc;

use gpool_model::array::ArrayEnds;
use gpool_model::{
    ArrayState, Attempt, Job, JobEnd, JobId, JobNumber, JobSpec, Outcome, Phase, Positions,
    Timestamp,
};

use crate::row::JobRow;
use crate::world::World;

/// Counts of an array's elements that have rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Elements {
    pub n_rows: u32,
    /// Elements that hold something on a node.
    pub n_live: u32,
}

impl World {
    /// Returns the row that describes a job: its own, or the array's for an element that has not
    /// started.
    #[must_use]
    pub fn row_for(&self, id: JobId) -> Option<&JobRow> {
        self.job(id).or_else(|| {
            let (row, position) = self.position_of(id)?;
            let array = row.job.array.as_ref()?;
            let waits = array.unstarted.contains(position) || array.waiting.contains(position);
            waits.then_some(row)
        })
    }

    /// Whether a job or element with this ID exists and has not ended.
    #[must_use]
    pub fn is_live(&self, id: JobId) -> bool {
        self.row_for(id).is_some()
    }

    /// Returns the live array that an element belongs to, with the element's position in it.
    #[must_use]
    pub fn position_of(&self, id: JobId) -> Option<(&JobRow, u32)> {
        let row = self.array(id.number)?;
        Some((row, row.spec.array.as_ref()?.indexes.position(id.element?)?))
    }

    /// Returns an array that has not ended.
    #[must_use]
    pub fn array(&self, number: JobNumber) -> Option<&JobRow> {
        let row = self.jobs.get(&JobId { number, element: None })?;
        row.job.array.is_some().then_some(row)
    }

    /// The elements of an array that have a row, by index.
    pub fn elements(&self, number: JobNumber) -> impl Iterator<Item = &JobRow> {
        let of = |element| JobId { number, element };
        self.jobs.range(of(Some(0))..=of(Some(u32::MAX))).map(|(_, row)| &**row)
    }

    /// The elements of an array that other jobs name in dependencies.
    pub fn awaited_elements(&self, number: JobNumber) -> impl Iterator<Item = JobId> {
        let of = |element| JobId { number, element };
        self.dependents.range(of(Some(0))..=of(Some(u32::MAX))).map(|(id, _)| *id)
    }

    /// How many elements of an array have a row.
    #[must_use]
    pub fn n_rows_of(&self, number: JobNumber) -> u32 {
        self.elements.get(&number).map_or(0, |elements| elements.n_rows)
    }

    /// How many elements of an array hold something on a node.
    #[must_use]
    pub fn n_live_of(&self, number: JobNumber) -> u32 {
        self.elements.get(&number).map_or(0, |elements| elements.n_live)
    }

    /// How many jobs have not ended, an array as one.
    #[must_use]
    pub fn n_live_jobs(&self) -> usize {
        self.jobs.len() - self.n_element_rows
    }

    /// How many arrays have not ended.
    #[must_use]
    pub fn n_arrays(&self) -> usize {
        self.n_arrays
    }

    /// Returns how an element ended, if its array is live or ended recently.
    pub(crate) fn element_end(&self, id: JobId) -> Option<Outcome> {
        match self.position_of(id) {
            Some((row, position)) => row.job.array.as_ref()?.outcome_of(position),
            None => self.recent_array(id.number)?.outcome_of(id.element?),
        }
    }

    /// Returns how the elements of an array ended that left memory recently.
    #[must_use]
    pub fn recent_array(&self, number: JobNumber) -> Option<&ArrayEnds> {
        self.recent_arrays.get(&number)
    }

    pub(crate) fn remember_elements(&mut self, spec: &JobSpec, job: &Job) {
        if let (Some(asked), Some(array)) = (&spec.array, &job.array) {
            let ends = ArrayEnds { indexes: asked.indexes.clone(), ended: array.ended.clone() };
            self.recent_arrays.insert(job.id.number, ends);
        }
    }

    /// Gives an element that has not started a row of its own.
    ///
    /// # Panics
    /// If the ID names no such element.
    pub fn add_element(&mut self, job: Job) {
        let (row, position) = self.position_of(job.id).expect("an element of a living array");
        let spec = std::sync::Arc::clone(&row.spec);
        self.change_array(job.id.number, job_since(&job), |array| {
            let waited = array.unstarted.remove(position) || array.waiting.remove(position);
            assert!(waited, "element {} waits", job.id);
        });
        self.add_job(spec, job);
    }

    /// Records in the array how an element ended, once its row is gone.
    pub(crate) fn note_element_end(&mut self, id: JobId, attempt: Attempt, end: &JobEnd) {
        if let Some((_, position)) = self.position_of(id) {
            let note = |array: &mut ArrayState| array.note_end(position, attempt, end);
            self.change_array(id.number, end.ended_at, note);
        }
    }

    /// Changes the state of an array's elements that have no row. If no element can start any more,
    /// the array is waiting or under way since `at`; if elements can start again, it is pending
    /// since `at`.
    pub fn change_array(
        &mut self,
        number: JobNumber,
        at: Timestamp,
        change: impl FnOnce(&mut ArrayState),
    ) {
        let id = JobId { number, element: None };
        let mut row = self.jobs.remove(&id).expect("an array that lives");
        self.uncount(&row);
        self.await_no_others(&row);
        let was_pending = matches!(row.job.phase, Phase::Pending { .. });
        let job = &mut Arc::make_mut(&mut row).job;
        let array = job.array.as_mut().expect("an array has elements");
        change(array);
        let (can_start, waits) = (!array.unstarted.is_empty(), !array.waiting.is_empty());
        job.phase = match std::mem::replace(&mut job.phase, Phase::Pending { since: at }) {
            Phase::Pending { since } if !can_start => {
                job.waited = job.waited.saturating_add(at.since(since));
                if waits { Phase::Waiting { since: at } } else { Phase::Underway { since: at } }
            }
            Phase::Held { .. } | Phase::Waiting { .. } if !can_start && !waits => {
                Phase::Underway { since: at }
            }
            Phase::Underway { .. } if can_start => Phase::Pending { since: at },
            phase => phase,
        };
        let is_pending = matches!(row.job.phase, Phase::Pending { .. });
        let n = row.job.array.as_ref().map_or(0, |array| u64::from(array.unstarted.len()));
        match (was_pending, is_pending) {
            (true, true) => self.queue.set_n(id, n),
            (true, false) => self.unqueue(&row),
            (false, true) => self.enqueue(&row),
            (false, false) => {}
        }
        self.count(&row);
        self.await_others(&row);
        self.jobs.insert(id, row);
        self.mark_job(id);
    }

    /// Returns the positions of elements of one array; elements that the array does not have are
    /// left out.
    #[must_use]
    pub fn positions(&self, ids: &[JobId]) -> Positions {
        ids.iter().filter_map(|id| self.position_of(*id)).map(|(_, position)| position).collect()
    }
}

fn job_since(job: &Job) -> Timestamp {
    match &job.phase {
        Phase::Held { since, .. }
        | Phase::Waiting { since }
        | Phase::Pending { since }
        | Phase::Underway { since }
        | Phase::Starting { since, .. }
        | Phase::Paused { since, .. }
        | Phase::Stopping { since, .. } => *since,
        Phase::Running { started_at, .. } => *started_at,
        Phase::Ended(end) => end.ended_at,
    }
}
