//! The scheduling core: a snapshot and a policy make a plan. Infallible and pure; what does not
//! fit is a wait with a reason, never an error.
//!
//! A cycle walks the pending jobs in the policy's order, shape by shape, and gives each the best
//! place that is free at once and that it leaves before anybody is to have it for whom it is kept.
//! The first that find none have the earliest time and place kept at which they can run. Where a
//! cluster is shared, projects take turns: first each has what it is entitled to, from what others
//! have on loan if need be, and only then is anything lent.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod capacity;
mod caps;
mod consolidate;
mod cost;
mod cycle;
mod elements;
mod evict;
mod explain;
mod find_placement;
mod foresight;
mod holders;
mod order;
mod overview;
pub mod packing;
mod preempt;
mod projects;
mod saturation;
pub mod shares;
mod turns;
mod used;
mod victim_node;
mod wait;
mod waiting;
mod ways;

use gpool_model::{JobId, Placement, Plan, Policy, PoolName, Reason, Shape};
use gpool_world::Snapshot;

use capacity::{Capacity, Demand, Holds, View, placements};
pub use capacity::{Unusable, unusable};
pub use caps::user_quota;
pub use cycle::Workspace;
pub use explain::{Explainer, KeptBy, ReasonsByShape, Rivals};
use find_placement::find_placement;
use foresight::Foresight;
use order::Heads;
pub use overview::{Lent, LoanEnd, ProjectShare, project_shares};
use waiting::SaysWhy;

/// Decides what starts now, when those start that have a planned start, and why the rest waits.
pub fn plan(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    cycle::run(snapshot, policy, workspace, SaysWhy::Yes)
}

/// The same without the reasons, which takes much less time where much waits.
pub fn decide(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    cycle::run(snapshot, policy, workspace, SaysWhy::No)
}

/// The pending jobs in the order in which they are considered: first those that name pools with a
/// policy of their own, pool by pool.
pub fn in_order<'a>(
    snapshot: &Snapshot<'a>,
    policy: &'a Policy,
) -> impl Iterator<Item = JobId> + 'a {
    let world = snapshot.world;
    domains(policy).flat_map(move |(domain, policy)| {
        let mut heads = Heads::default();
        world.lines_of(domain).for_each(|(_, line)| heads.add(line));
        heads.open(|_| false);
        std::iter::from_fn(move || {
            let head = *heads.first()?.0;
            heads.advance();
            heads.push_next(world, policy, &head);
            Some(head.job())
        })
    })
}

/// Those that decide: pools with a policy of their own, by name, and then the cluster.
fn domains(policy: &Policy) -> impl Iterator<Item = (Option<&PoolName>, &Policy)> {
    let pools = policy.pools.iter().map(|(pool, own)| (Some(pool), own));
    pools.chain([(None, policy)])
}

/// Where the tasks of a job of that shape would go if it were next, by rank; `Err` says why it
/// would wait. Pending jobs are not considered.
///
/// # Errors
/// The reason for waiting.
pub fn would_place(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    shape: &Shape,
) -> Result<Vec<Placement>, Reason> {
    let capacity = Capacity::new(snapshot.world);
    let holds = Holds::of(snapshot, policy, &capacity);
    let policy = policy.of_pool(shape.domain.as_ref());
    let shape = &*ways::of_one_model(snapshot.world, shape);
    let demand = Demand::new(shape, policy, 0);
    let mut foresight = Foresight::default();
    let mut look = foresight.look(snapshot, &capacity, shape);
    let (world, now) = (snapshot.world, snapshot.now);
    let none = |_| Vec::new();
    let view = View { now, capacity: &capacity, holds: &holds, departures: &none };
    match find_placement(view, demand, look.as_mut()) {
        Some(placed) => Ok(placements(&placed, &shape.fit, world)),
        None => Err(find_placement::reason(view, demand)),
    }
}
