//! Cycles by the rules of preset `kai`: the state of the cluster is written down as a
//! [`crate::kai::Situation`], and what comes of it is read back as a plan.
//!
//! A plan can say less than an outcome. What moves is taken back, and finds its new place in a
//! later cycle; and a claim is made only on what somebody leaves in the same plan.

mod decide;
mod plain;
mod sketch;

use gpool_model::{Plan, Policy};
use gpool_world::Snapshot;

use crate::board::Board;
use crate::kai;

use decide::Decider;
use sketch::Sketch;

/// The jobs of each project that a cycle looks at; those behind them wait their turn.
pub(crate) const DEPTH: usize = 500;

/// Decides what starts now and what is taken back for it.
pub(crate) fn run(snapshot: &Snapshot<'_>, policy: &Policy) -> Plan {
    let board = Board::new(snapshot.world);
    let sketch = Sketch::of(snapshot, policy, &board);
    let usage_feedback = i64::from(policy.use_weight);
    let mut stages = kai::Stage::CYCLE.to_vec();
    stages.retain(|stage| policy.consolidate || *stage != kai::Stage::Consolidate);
    let settings = kai::Settings { stages, usage_feedback, ..kai::Settings::default() };
    let outcome = kai::cycle(&sketch.situation, &settings);
    Decider::new(snapshot, policy, board, sketch).plan(&outcome)
}

/// Whether a task is to have a place when others have left it.
fn claims(world: &gpool_world::World, task: gpool_model::TaskId) -> bool {
    let row = world.job(task.job);
    row.is_some_and(|row| {
        let mut own = row.job.phase.allocations().iter();
        own.any(|it| {
            it.task == task && matches!(it.state, gpool_model::AllocationState::Claimed { .. })
        })
    })
}
