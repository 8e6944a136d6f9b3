//! The waiting jobs of a plan, with their reasons.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use gpool_model::{JobNumber, Reason, Wait};
use gpool_world::{ShapeIx, World};

/// Whether a plan has the reasons of waiting jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaysWhy {
    Yes,
    /// Jobs that can't start are skipped.
    No,
}

/// Shapes with waiting jobs, and arrays that have reached their own limit.
#[derive(Debug, Default)]
pub(crate) struct PendingReport {
    /// Whether only starts are counted.
    pub is_silent: bool,
    /// In the order of the queue.
    order: Vec<(ShapeIx, Option<JobNumber>)>,
    shapes: BTreeMap<ShapeIx, Reason>,
    /// Jobs of a shape that need no place: they start, or their array is at its limit.
    n_aside: BTreeMap<ShapeIx, u64>,
    arrays: BTreeMap<(ShapeIx, JobNumber), (u64, Reason)>,
}

impl PendingReport {
    pub fn new(says_why: SaysWhy) -> Self {
        Self { is_silent: says_why == SaysWhy::No, ..Self::default() }
    }

    /// A job of a shape starts.
    pub fn started(&mut self, shape_ix: ShapeIx) {
        *self.n_aside.entry(shape_ix).or_default() += 1;
    }

    /// No further job of a shape has a place; the first reason counts.
    pub fn of_shape(&mut self, shape_ix: ShapeIx, reason: &Reason) {
        if self.is_silent {
            return;
        }
        if let Entry::Vacant(entry) = self.shapes.entry(shape_ix) {
            entry.insert(reason.clone());
            self.order.push((shape_ix, None));
        }
    }

    /// An array is at its limit, with `n` more elements.
    pub fn of_array(&mut self, shape_ix: ShapeIx, array: JobNumber, n: u64, reason: Reason) {
        *self.n_aside.entry(shape_ix).or_default() += n;
        if self.is_silent {
            return;
        }
        let before = self.arrays.len();
        self.arrays.entry((shape_ix, array)).or_insert((0, reason)).0 += n;
        if self.arrays.len() > before {
            self.order.push((shape_ix, Some(array)));
        }
    }

    /// Returns the waits of the plan.
    pub fn into_waits(mut self, world: &World) -> Vec<Wait> {
        let order = std::mem::take(&mut self.order);
        let wait = |(shape_ix, array): (ShapeIx, Option<JobNumber>)| {
            let queue = world.shape(shape_ix);
            let (n_jobs, reason) = match array {
                Some(number) => {
                    self.arrays.remove(&(shape_ix, number)).expect("it is in the order")
                }
                None => {
                    let n_aside = self.n_aside.get(&shape_ix).copied().unwrap_or(0);
                    let reason = self.shapes.remove(&shape_ix).expect("it is in the order");
                    (queue.n_jobs() - n_aside, reason)
                }
            };
            Wait { shape: Arc::clone(&queue.shape), array, n_jobs, reason }
        };
        order.into_iter().map(wait).collect()
    }
}
