//! The order of jobs: the policy's keys, compared left to right, then age, which is the order in
//! which the jobs of a shape are kept, then the job's id, so that it is total.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

use gpool_model::attained::Level;
use gpool_model::{JobId, Millis, OrderKey, Policy, Shape, Timestamp};
use gpool_world::{ShapeIx, World};

/// A job's place in the order; smaller goes first. Of one priority those that make another job
/// larger come last (SCHEDULING A4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Whether it makes another job larger, where priority does not come before that.
    joins: bool,
    keys: [u64; Self::KEYS_MAX],
    submitted_at: Timestamp,
    job: JobId,
}

impl Rank {
    /// Each key stands at most once in a policy.
    const KEYS_MAX: usize = 6;
    /// Priorities are below this, so that their complement is a natural number.
    const PRIORITY_ABOVE: i64 = 1 << 32;

    pub fn of(
        policy: &Policy,
        shape: &Shape,
        is_escalated: bool,
        submitted_at: Timestamp,
        job: JobId,
    ) -> Self {
        let mut keys = [0; Self::KEYS_MAX];
        let mut by_age_alone = false;
        for (slot, key) in keys.iter_mut().zip(&policy.order) {
            *slot = match key {
                OrderKey::Priority => {
                    let priority = Self::PRIORITY_ABOVE - i64::from(shape.priority);
                    u64::try_from(priority * 2 + i64::from(shape.joins)).unwrap_or(0)
                }
                OrderKey::Escalated => {
                    by_age_alone = is_escalated;
                    u64::from(!is_escalated)
                }
                // Among escalated jobs the oldest goes first, whatever its size.
                OrderKey::Gpus | OrderKey::Predicted | OrderKey::Attained if by_age_alone => 0,
                OrderKey::Attained => u64::from(level_of_waiting(shape, is_escalated)),
                OrderKey::Predicted => gpu_time(shape),
                OrderKey::Gpus => shape.fit.gpus_together().get(),
                OrderKey::Age => submitted_at.get(),
            };
        }
        let joins = shape.joins && policy.order.first() != Some(&OrderKey::Priority);
        Self { joins, keys, submitted_at, job }
    }

    pub fn job(&self) -> JobId {
        self.job
    }
}

/// The level at which a job stands that waits: one that has waited for long is at the first.
pub(crate) fn level_of_waiting(shape: &Shape, is_escalated: bool) -> Level {
    shape.level.filter(|_| !is_escalated).unwrap_or(0)
}

/// How much GPU-time a job is likely to take: thousandths of a device times milliseconds. Without
/// GPUs its time counts as if it had one.
fn gpu_time(shape: &Shape) -> u64 {
    let length = shape.predicted.or(shape.takes).map_or(u64::MAX, Millis::get);
    length.saturating_mul(shape.fit.gpus_together().get().max(1))
}

/// The first job of each shape that was not considered yet, fresh and escalated apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heads {
    heap: BinaryHeap<Reverse<Head>>,
}

/// A job that is next of its shape.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub(crate) struct Head {
    rank: Rank,
    pub shape_ix: ShapeIx,
    pub is_escalated: bool,
}

impl Head {
    pub fn job(&self) -> JobId {
        self.rank.job
    }
}

impl Heads {
    /// Begins anew with the first job of every shape.
    pub fn fill(&mut self, world: &World, policy: &Policy) {
        self.heap.clear();
        for (shape_ix, _) in world.shapes() {
            self.add(world, policy, shape_ix);
        }
    }

    /// Adds the first job of a shape.
    pub fn add(&mut self, world: &World, policy: &Policy, shape_ix: ShapeIx) {
        for is_escalated in [false, true] {
            self.push(world, policy, shape_ix, is_escalated, Bound::Unbounded);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.heap.clear();
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The one that goes first.
    pub fn pop(&mut self) -> Option<Head> {
        self.heap.pop().map(|Reverse(head)| head)
    }

    /// Puts one back that has more to give.
    pub fn push_again(&mut self, head: Head) {
        self.heap.push(Reverse(head));
    }

    /// Adds the one that follows `head` in its shape.
    pub fn push_next(&mut self, world: &World, policy: &Policy, head: &Head) {
        let after = Bound::Excluded((head.rank.submitted_at, head.job()));
        self.push(world, policy, head.shape_ix, head.is_escalated, after);
    }

    fn push(
        &mut self,
        world: &World,
        policy: &Policy,
        shape_ix: ShapeIx,
        is_escalated: bool,
        from: Bound<(Timestamp, JobId)>,
    ) {
        let queue = world.shape(shape_ix);
        let jobs = if is_escalated { &queue.escalated } else { &queue.fresh };
        let next = match from {
            // The usual case, which needs no search.
            Bound::Unbounded => jobs.first(),
            from => jobs.range((from, Bound::Unbounded)).next(),
        };
        if let Some((submitted_at, job)) = next.copied() {
            let rank = Rank::of(policy, &queue.shape, is_escalated, submitted_at, job);
            self.heap.push(Reverse(Head { rank, shape_ix, is_escalated }));
        }
    }
}
