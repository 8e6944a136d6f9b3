//! What a plan leaves waiting, gathered while it is made.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{JobNumber, Reason, Wait};
use gpool_world::{FitIx, ShapeIx, World};

/// Shapes of which something waits, and arrays that keep themselves from more.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// In the order in which they were met.
    order: Vec<(ShapeIx, Option<JobNumber>)>,
    shapes: BTreeSet<ShapeIx>,
    /// How many of a shape need no place: they start, or their array keeps them.
    n_aside: BTreeMap<ShapeIx, u64>,
    arrays: BTreeMap<(ShapeIx, JobNumber), (u64, Reason)>,
    /// Shapes whose users have all that they may have.
    quotas: BTreeMap<ShapeIx, Reason>,
}

impl Waiting {
    /// One of a shape starts.
    pub fn started(&mut self, shape_ix: ShapeIx) {
        *self.n_aside.entry(shape_ix).or_default() += 1;
    }

    /// Nothing more of a shape has a place.
    pub fn of_shape(&mut self, shape_ix: ShapeIx) {
        if self.shapes.insert(shape_ix) {
            self.order.push((shape_ix, None));
        }
    }

    /// The user of a shape has all that he may have.
    pub fn of_user(&mut self, shape_ix: ShapeIx, reason: Reason) {
        if self.shapes.insert(shape_ix) {
            self.order.push((shape_ix, None));
            self.quotas.insert(shape_ix, reason);
        }
    }

    /// An array keeps itself from more.
    pub fn of_array(&mut self, shape_ix: ShapeIx, array: JobNumber, n: u64, reason: Reason) {
        *self.n_aside.entry(shape_ix).or_default() += n;
        let before = self.arrays.len();
        self.arrays.entry((shape_ix, array)).or_insert((0, reason)).0 += n;
        if self.arrays.len() > before {
            self.order.push((shape_ix, Some(array)));
        }
    }

    /// What the plan says of them. `unplaceable` is by [`FitIx`].
    pub fn into_waits(mut self, world: &World, unplaceable: &[Option<Reason>]) -> Vec<Wait> {
        let order = std::mem::take(&mut self.order);
        let wait = |(shape_ix, array): (ShapeIx, Option<JobNumber>)| {
            let queue = world.shape(shape_ix);
            let (n_jobs, reason) = match array {
                Some(number) => {
                    self.arrays.remove(&(shape_ix, number)).expect("noted with its order")
                }
                None => {
                    let FitIx(fit_ix) = queue.fit_ix;
                    let n_aside = self.n_aside.get(&shape_ix).copied().unwrap_or(0);
                    let quota = self.quotas.remove(&shape_ix);
                    let reason = quota.or_else(|| unplaceable[fit_ix].clone());
                    let reason = reason.expect("its first job did not fit, or may not start");
                    (queue.n_jobs() - n_aside, reason)
                }
            };
            Wait { shape: queue.shape.clone(), array, n_jobs, reason }
        };
        order.into_iter().map(wait).collect()
    }
}
