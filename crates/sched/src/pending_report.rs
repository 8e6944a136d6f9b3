//! What a plan leaves waiting, gathered while it is made.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use gpool_model::{JobNumber, Reason, Wait};
use gpool_world::{ShapeIx, World};

/// Whether a plan says why those wait that do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaysWhy {
    Yes,
    /// Then nobody is looked at of whom nothing can come.
    No,
}

/// Shapes of which something waits, and arrays that keep themselves from more.
#[derive(Debug, Default)]
pub(crate) struct PendingReport {
    /// Whether nothing is noted but how many start.
    pub is_silent: bool,
    /// In the order in which they were met.
    order: Vec<(ShapeIx, Option<JobNumber>)>,
    shapes: BTreeMap<ShapeIx, Reason>,
    /// How many of a shape need no place: they start, or their array keeps them.
    n_aside: BTreeMap<ShapeIx, u64>,
    arrays: BTreeMap<(ShapeIx, JobNumber), (u64, Reason)>,
}

impl PendingReport {
    pub fn new(says_why: SaysWhy) -> Self {
        Self { is_silent: says_why == SaysWhy::No, ..Self::default() }
    }

    /// One of a shape starts.
    pub fn started(&mut self, shape_ix: ShapeIx) {
        *self.n_aside.entry(shape_ix).or_default() += 1;
    }

    /// Nothing more of a shape has a place; the reason is that of the first.
    pub fn of_shape(&mut self, shape_ix: ShapeIx, reason: &Reason) {
        if self.is_silent {
            return;
        }
        if let Entry::Vacant(entry) = self.shapes.entry(shape_ix) {
            entry.insert(reason.clone());
            self.order.push((shape_ix, None));
        }
    }

    /// An array keeps itself from more.
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

    /// What the plan says of them.
    pub fn into_waits(mut self, world: &World) -> Vec<Wait> {
        let order = std::mem::take(&mut self.order);
        let wait = |(shape_ix, array): (ShapeIx, Option<JobNumber>)| {
            let queue = world.shape(shape_ix);
            let (n_jobs, reason) = match array {
                Some(number) => {
                    self.arrays.remove(&(shape_ix, number)).expect("noted with its order")
                }
                None => {
                    let n_aside = self.n_aside.get(&shape_ix).copied().unwrap_or(0);
                    let reason = self.shapes.remove(&shape_ix).expect("noted with its order");
                    (queue.n_jobs() - n_aside, reason)
                }
            };
            Wait { shape: Arc::clone(&queue.shape), array, n_jobs, reason }
        };
        order.into_iter().map(wait).collect()
    }
}
