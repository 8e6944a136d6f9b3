//! Quotas as preset `kai` has them: cycles of allocating what is free, moving what runs so that
//! something fits, taking back from projects beyond their part, preempting within a project, and
//! ending what is left of gangs. SCHEDULING §A, A3 to A10, to the letter.
//!
//! A cycle works on data of its own, a [`Situation`], and gives back an [`Outcome`]: it knows no
//! world, no job of the state machine and no text. What it decides depends on what is in the
//! situation and not on the order of its lists.

mod admit;
mod allocate;
mod board;
mod books;
mod bracket;
mod charge;
mod cluster;
mod consolidate;
mod counters;
mod cycle;
mod entitled;
mod failures;
mod outcome;
mod place;
mod place_unit;
mod preempt;
mod reclaim;
mod runtime;
mod settings;
mod situation;
mod solver;
mod stale;
mod turns;
mod unit;
mod victims;

pub use outcome::{
    Change, Decision, Line, NodeAfter, Outcome, PlacementAfter, ProjectAfter, SharedAfter,
    TaskAfter, Wait, Why,
};
pub use place::Lacks;
pub use settings::{Settings, Stage, Strategy};
pub use situation::{
    Amounts, DeviceMode, Devices, GpuAsk, Group, Instances, Job, Kind, MigAsk, Node, Placement,
    Project, Quota, Request, Site, Situation, Task, TaskSet, TaskState,
};

use board::Board;
use books::Books;
use cluster::Cluster;
use cycle::{Cycle, Rules};

/// Runs the stages of the settings once.
pub fn cycle(situation: &Situation, settings: &Settings) -> Outcome {
    let cluster = Cluster::of(situation, settings.task_priority);
    let (board, names) = Board::of(&cluster, situation);
    let (books, entitled) = Books::of(&board, situation, settings);
    let tasks = cluster.tasks.len();
    let mut jobs = 0..cluster.jobs.len();
    let mut cycle = Cycle {
        promised_more: jobs.any(|job| board.promised_more(job)),
        rules: Rules { cluster: &cluster, entitled: &entitled, settings },
        board,
        books,
        obstacles: Vec::new(),
        ended_for: vec![None; tasks],
    };
    cycle.run();
    Outcome::of(&cycle, situation, &names)
}
