//! The order of jobs: the policy's keys, compared left to right, then the job's id, so that it
//! is total.

use gpool_model::{JobId, OrderKey, Policy, Shape, Timestamp};
use gpool_world::World;

/// A job's place in the order; smaller goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    keys: [u64; Self::KEYS_MAX],
    job: JobId,
}

impl Rank {
    /// Each key stands at most once in a policy.
    const KEYS_MAX: usize = 4;
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
                    u64::try_from(Self::PRIORITY_ABOVE - i64::from(shape.priority)).unwrap_or(0)
                }
                OrderKey::Escalated => {
                    by_age_alone = is_escalated;
                    u64::from(!is_escalated)
                }
                // Among escalated jobs the oldest goes first, whatever its size.
                OrderKey::Gpus if by_age_alone => 0,
                OrderKey::Gpus => shape.fit.gpus.charge().get(),
                OrderKey::Age => submitted_at.get(),
            };
        }
        Self { keys, job }
    }

    pub fn job(&self) -> JobId {
        self.job
    }

    /// When the job was submitted.
    pub fn age(&self, world: &World) -> Timestamp {
        world.job(self.job).expect("ranked jobs are there").spec.submitted_at
    }
}
