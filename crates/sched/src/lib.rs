//! The scheduling core: a snapshot and a policy make a plan. Infallible and pure; what does not
//! fit is a wait with a reason, never an error.
//!
//! Read `pipeline` first: the stages of a cycle in order. Then `capacity` (does a demand fit, and
//! on which devices), `victims` (which jobs leave for it), `quota_state` and [`fairshare`] (what
//! each project may have), `fragmentation` (which node to take), `fit_reason` (why a job waits).

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod array_cursor;
mod capacity;
mod caps;
mod dominant_share;
pub mod fairshare;
mod fit_reason;
mod fragmentation;
mod order;
pub mod packing;
mod pending_report;
mod pipeline;
mod quota_state;
mod resource_flavors;
mod share_report;
mod share_tree;
mod usage;
mod victims;

use gpool_model::{JobId, Placement, Plan, Policy, PoolName, Reason, Shape};
use gpool_world::Snapshot;

use capacity::{Capacity, Demand, Holds, View, placements};
pub use capacity::{Unusable, unusable};
pub use caps::user_quota;
use fragmentation::Fragmentation;
use order::Heads;
use pending_report::SaysWhy;
use pipeline::find_placement::{self, find_placement};
pub use pipeline::{Explainer, KeptBy, ReasonsByShape, Rivals, Workspace};
pub use share_report::{Lent, LoanEnd, ProjectShare, project_shares};

/// Decides what starts now, when those start that have a planned start, and why the rest waits.
pub fn plan(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    pipeline::run(snapshot, policy, workspace, SaysWhy::Yes)
}

/// The same without the reasons, which takes much less time where much waits.
pub fn decide(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    pipeline::run(snapshot, policy, workspace, SaysWhy::No)
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
    let shape = &*resource_flavors::of_one_model(snapshot.world, shape);
    let demand = Demand::new(shape, policy, 0);
    let mut fragmentation = Fragmentation::default();
    let mut look = fragmentation.look(snapshot, &capacity, shape);
    let (world, now) = (snapshot.world, snapshot.now);
    let none = |_| Vec::new();
    let view = View { now, capacity: &capacity, holds: &holds, departures: &none };
    match find_placement(view, demand, look.as_mut()) {
        Some(placed) => Ok(placements(&placed, &shape.fit, world)),
        None => Err(find_placement::reason(view, demand)),
    }
}
