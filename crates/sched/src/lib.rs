//! The scheduling core: a snapshot and a policy make a plan. Infallible and pure; what does not
//! fit is a wait with a reason, never an error.
//!
//! A cycle walks the pending jobs in the policy's order, shape by shape, and gives each the best
//! place that is free at once. The stages stand in the order in which they disturb: this version
//! has `order` and `place`.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod board;
mod caps;
mod elements;
mod explain;
mod order;
mod place;
mod usable;
mod wait;
mod waiting;

use gpool_model::{Decision, JobId, Placement, Plan, Policy, Reason};
use gpool_world::{FitIx, Snapshot};

use board::Board;
use caps::Users;
use elements::Elements;
pub use explain::Explainer;
use order::Heads;
pub use usable::{Unusable, unusable};
use waiting::Waiting;

/// Memory that cycles use again. A new one gives the same plans, only later.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    heads: Heads,
    /// By [`FitIx`]: why nothing more of that fit can be placed in this cycle.
    unplaceable: Vec<Option<Reason>>,
    users: Users,
}

/// Decides what starts now, and why the rest waits.
pub fn plan(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    let world = snapshot.world;
    let mut plan = Plan { basis: world.revision(), ..Plan::default() };
    let mut board = Board::new(world);
    let mut elements = Elements::default();
    let mut waiting = Waiting::default();
    let Workspace { heads, unplaceable, users } = workspace;
    users.clear();
    unplaceable.clear();
    unplaceable.resize(world.n_fit_rows(), None);
    heads.fill(world, policy);
    while let Some(head) = heads.pop() {
        let queue = world.shape(head.shape_ix);
        let FitIx(fit_ix) = queue.fit_ix;
        let row = world.job(head.job()).expect("queued jobs are there");
        if let Some(reason) = elements.full(world, row.job.id) {
            waiting.of_array(head.shape_ix, row.job.id.number, elements.n_left(row), reason);
            heads.push_next(world, policy, &head);
            continue;
        }
        if let Some(reason) = users.quota(world, policy, &queue.shape) {
            // Nor may the rest of the shape, and nobody waits for them.
            waiting.of_user(head.shape_ix, reason);
            continue;
        }
        if unplaceable[fit_ix].is_none() {
            let (job, attempt) = elements.next(row);
            let seed = place::seed(job, attempt);
            if let Some(found) = place::place(&board, &queue.shape.fit, policy, seed) {
                let placements = vec![found.placement(world)];
                plan.decisions.push(Decision::Start { job, attempt, placements, after: vec![] });
                board.book(&found, &queue.shape.fit);
                users.started(world, policy, &queue.shape);
                waiting.started(head.shape_ix);
                match elements.take(row) {
                    true => heads.push_again(head),
                    false => heads.push_next(world, policy, &head),
                }
                continue;
            }
            unplaceable[fit_ix] = Some(wait::reason(&board, &queue.shape.fit));
        }
        // The rest of the shape does not fit either.
        waiting.of_shape(head.shape_ix);
    }
    plan.waits = waiting.into_waits(world, unplaceable);
    plan
}

/// The pending jobs in the order in which they are considered.
pub fn in_order<'a>(
    snapshot: &Snapshot<'a>,
    policy: &'a Policy,
) -> impl Iterator<Item = JobId> + 'a {
    let world = snapshot.world;
    let mut heads = Heads::default();
    heads.fill(world, policy);
    std::iter::from_fn(move || {
        let head = heads.pop()?;
        heads.push_next(world, policy, &head);
        Some(head.job())
    })
}

/// Where a job of that fit would go if it were next; `Err` says why it would wait. Pending jobs
/// are not considered.
///
/// # Errors
/// The reason for waiting.
pub fn would_place(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    fit: &gpool_model::plan::Fit,
) -> Result<Placement, Reason> {
    let board = Board::new(snapshot.world);
    match place::place(&board, fit, policy, 0) {
        Some(found) => Ok(found.placement(snapshot.world)),
        None => Err(wait::reason(&board, fit)),
    }
}
