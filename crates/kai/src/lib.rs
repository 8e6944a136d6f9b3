//! KAI's exact rules: an oracle with which the scheduler of gpool is compared. A cycle allocates
//! free capacity, consolidates, reclaims between projects, preempts inside one, and ends gangs that
//! have lost members, as the scheduler of Run:ai does (its behaviour as of its public cases).
//!
//! [`cycle()`] takes a [`Situation`] and returns an [`Outcome`]. It depends on the content of the
//! situation and not on the order of its lists. [`cases`] plays the public cases by these rules,
//! and beside them by preset `fair`. No server runs these rules.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod admit;
mod board;
mod books;
mod bracket;
pub mod cases;
mod cluster;
mod counters;
mod cycle;
mod entitled;
mod failures;
mod outcome;
mod settings;
pub mod shares;
mod situation;
mod unit;

pub use cycle::place::Lacks;
pub use outcome::{
    Change, Decision, Line, NodeAfter, Outcome, PlacementAfter, ProjectAfter, SharedAfter,
    TaskAfter, Wait, Why,
};
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
