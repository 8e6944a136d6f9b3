//! The scheduling core: a snapshot and a policy make a plan. Infallible and pure; what does not
//! fit is a wait with a reason, never an error.
//!
//! A cycle walks the pending jobs in the policy's order, shape by shape, and gives each the best
//! place that is free at once. The stages stand in the order in which they disturb: this version
//! has `order` and `place`.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod board;
mod explain;
mod order;
mod place;
mod usable;
mod wait;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

use gpool_model::{Decision, JobId, Placement, Plan, Policy, Reason, Timestamp, Wait};
use gpool_world::{FitIx, ShapeIx, Snapshot};

use board::Board;
pub use explain::Explainer;
use order::Rank;
pub use usable::{Unusable, unusable};

/// Memory that cycles use again. A new one gives the same plans, only later.
#[derive(Debug, Default)]
pub struct Workspace {
    heads: BinaryHeap<Reverse<Head>>,
    /// By [`FitIx`]: why nothing more of that fit can be placed in this cycle.
    unplaceable: Vec<Option<Reason>>,
}

/// The first job of a shape that was not considered yet.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    rank: Rank,
    shape_ix: ShapeIx,
    is_escalated: bool,
}

/// Decides what starts now, and why the rest waits.
pub fn plan(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    let world = snapshot.world;
    let mut plan = Plan { basis: world.revision(), ..Plan::default() };
    let mut board = Board::new(world);
    let mut n_started = BTreeMap::<ShapeIx, u64>::new();
    let mut waits = Vec::new();
    let mut waiting = BTreeSet::new();
    workspace.unplaceable.clear();
    workspace.unplaceable.resize(world.n_fit_rows(), None);
    workspace.heads.clear();
    for (shape_ix, _) in world.shapes() {
        for is_escalated in [false, true] {
            workspace.heads.extend(head(snapshot, policy, shape_ix, is_escalated, None));
        }
    }
    while let Some(Reverse(Head { rank, shape_ix, is_escalated })) = workspace.heads.pop() {
        let queue = world.shape(shape_ix);
        let FitIx(fit_ix) = queue.fit_ix;
        if workspace.unplaceable[fit_ix].is_none() {
            let row = world.job(rank.job()).expect("queued jobs are there");
            let seed = place::seed(row.job.id, row.job.attempt);
            match place::place(&board, &queue.shape.fit, policy, seed) {
                Some(found) => {
                    plan.decisions.push(Decision::Start {
                        job: row.job.id,
                        attempt: row.job.attempt,
                        placements: vec![found.placement(world)],
                        after: Vec::new(),
                    });
                    board.book(&found, &queue.shape.fit);
                    *n_started.entry(shape_ix).or_default() += 1;
                    let last = (rank.age(world), rank.job());
                    let next = head(snapshot, policy, shape_ix, is_escalated, Some(last));
                    workspace.heads.extend(next);
                    continue;
                }
                None => {
                    workspace.unplaceable[fit_ix] = Some(wait::reason(&board, &queue.shape.fit));
                }
            }
        }
        if waiting.insert(shape_ix) {
            waits.push((shape_ix, fit_ix));
        }
    }
    plan.waits.extend(waits.into_iter().map(|(shape_ix, fit_ix)| {
        let queue = world.shape(shape_ix);
        let n_started = n_started.get(&shape_ix).copied().unwrap_or(0);
        let reason = workspace.unplaceable[fit_ix].clone().expect("its first job did not fit");
        Wait { shape: queue.shape.clone(), n_jobs: queue.len() as u64 - n_started, reason }
    }));
    plan
}

/// The first job of a shape, fresh or escalated, after `last`.
fn head(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    shape_ix: ShapeIx,
    is_escalated: bool,
    last: Option<(Timestamp, JobId)>,
) -> Option<Reverse<Head>> {
    let queue = snapshot.world.shape(shape_ix);
    let jobs = if is_escalated { &queue.escalated } else { &queue.fresh };
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    let (submitted_at, job) = *jobs.range((from, Bound::Unbounded)).next()?;
    let rank = Rank::of(policy, &queue.shape, is_escalated, submitted_at, job);
    Some(Reverse(Head { rank, shape_ix, is_escalated }))
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
