//! Whether a cycle can preempt any job at all.

use gpool_model::{OrderKey, Policy};
use gpool_world::World;

/// Whether jobs may be preempted: by priority or GPU-time, where one of these is the first key of
/// the policy's order, or because jobs make other jobs larger.
pub(crate) fn is_possible(world: &World, policy: &Policy) -> bool {
    matches!(policy.order.first(), Some(OrderKey::Priority | OrderKey::Attained))
        || world.joiners().next().is_some()
}

/// Whether any running job may be evicted.
pub(crate) fn any_evictable(world: &World) -> bool {
    world.project_rows().iter().any(|row| !row.evictable.is_empty())
}
