//! What each user may have at once, while a plan is made: what it starts counts at once.

use std::collections::BTreeMap;

use gpool_model::policy::{Caps, Held};
use gpool_model::{MilliGpu, Policy, Reason, Shape};
use gpool_world::World;

/// What users hold, the present plan included. Users without caps cost nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users {
    by_uid: BTreeMap<u32, (Caps, Held)>,
}

impl Users {
    fn get(&mut self, world: &World, uid: u32) -> &mut (Caps, Held) {
        self.by_uid.entry(uid).or_insert_with(|| (world.caps_of(uid), world.held_by(uid)))
    }

    /// Why a job of that shape may not start, if its user has as much as he may have. What he has
    /// only grows in a plan, so that holds to its end.
    pub fn quota(&mut self, world: &World, policy: &Policy, shape: &Shape) -> Option<Reason> {
        if policy.user_caps.is_none() {
            return None;
        }
        let (caps, held) = *self.get(world, shape.uid?);
        quota(caps, held, shape.fit.gpus_together())
    }

    /// A job of that shape starts.
    pub fn started(&mut self, world: &World, policy: &Policy, shape: &Shape) {
        let Some(uid) = shape.uid.filter(|_| !policy.user_caps.is_none()) else { return };
        let (_, held) = self.get(world, uid);
        held.jobs += 1;
        held.gpus = held.gpus.saturating_add(shape.fit.gpus_together());
    }
}

/// Why a user who holds that may not have so much more.
pub(crate) fn quota(caps: Caps, held: Held, more: MilliGpu) -> Option<Reason> {
    let (what, used, most) = caps.exceeded(held, more)?;
    Some(Reason::QuotaUser { what, used, most })
}
