//! The waiting jobs of a plan, with their reasons.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::{JobNumber, Reason, Wait};
use gpool_world::{ShapeIx, World};

/// Shapes with waiting jobs, and arrays that have reached their own limit.
#[derive(Debug, Default)]
pub(crate) struct PendingReport {
    /// Whether only starts are counted: jobs that can't start are skipped, without a reason.
    pub is_silent: bool,
    /// In the order of the queue; of an array, with the number of its further elements.
    waits: Vec<(Waiting, u64, Reason)>,
    positions: BTreeMap<Waiting, usize>,
    /// Jobs of a shape that need no place: they start, or their array is at its limit.
    n_aside: BTreeMap<ShapeIx, u64>,
}

/// A shape, and its array if that is at its limit.
type Waiting = (ShapeIx, Option<JobNumber>);

impl PendingReport {
    pub fn silent() -> Self {
        Self { is_silent: true, ..Self::default() }
    }

    /// A job of a shape starts.
    pub fn started(&mut self, shape_ix: ShapeIx) {
        *self.n_aside.entry(shape_ix).or_default() += 1;
    }

    /// No further job of a shape has a place; the first reason counts.
    pub fn of_shape(&mut self, shape_ix: ShapeIx, reason: &Reason) {
        self.add((shape_ix, None), 0, reason);
    }

    /// An array is at its limit, with `n` more elements.
    pub fn of_array(&mut self, shape_ix: ShapeIx, array: JobNumber, n: u64, reason: &Reason) {
        *self.n_aside.entry(shape_ix).or_default() += n;
        self.add((shape_ix, Some(array)), n, reason);
    }

    fn add(&mut self, waiting: Waiting, n: u64, reason: &Reason) {
        if self.is_silent {
            return;
        }
        let at = *self.positions.entry(waiting).or_insert(self.waits.len());
        match self.waits.get_mut(at) {
            Some((_, n_elements, _)) => *n_elements += n,
            None => self.waits.push((waiting, n, reason.clone())),
        }
    }

    /// Returns the waits of the plan.
    pub fn into_waits(self, world: &World) -> Vec<Wait> {
        let Self { waits, n_aside, .. } = self;
        let wait = |((shape_ix, array), n_elements, reason): (Waiting, u64, Reason)| {
            let queue = world.shape(shape_ix);
            let n_waiting = || queue.n_jobs() - n_aside.get(&shape_ix).copied().unwrap_or(0);
            let n_jobs = if array.is_some() { n_elements } else { n_waiting() };
            Wait { shape: Arc::clone(&queue.shape), array, n_jobs, reason }
        };
        waits.into_iter().map(wait).collect()
    }
}
