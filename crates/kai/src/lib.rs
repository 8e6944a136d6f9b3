//! KAI's exact rules: an oracle with which the scheduler of gpool is compared. A cycle allocates
//! free capacity, consolidates, reclaims between projects, preempts inside one, and ends gangs that
//! have lost members, as the scheduler of Run:ai does (its behaviour as of its public cases).
//!
//! [`cycle()`] takes a [`Input`] and returns an [`Outcome`]. It depends on the content of the
//! input and not on the order of its lists. [`cases`] plays the public cases by these rules,
//! and beside them by preset `fair`. No server runs these rules.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod admit;
pub mod cases;
mod counters;
mod cycle;
mod entitled;
mod failures;
mod index;
mod input;
mod outcome;
mod queue;
mod quotas;
mod settings;
pub mod shares;
mod state;
mod unit;

pub use cycle::place::Lacks;
pub use input::{
    Amounts, DeviceMode, Devices, GpuAsk, Group, Input, Instances, Job, Kind, MigAsk, Node,
    Placement, Project, Quota, Request, Site, Task, TaskSet, TaskState,
};
pub use outcome::{
    Change, Decision, Line, NodeAfter, Outcome, PlacementAfter, ProjectAfter, SharedAfter,
    TaskAfter, Wait, Why,
};
pub use settings::{Settings, Stage, Strategy};

use cycle::{Cycle, Rules};
use index::Index;
use quotas::Quotas;
use state::State;

/// Runs the stages of the settings once.
pub fn cycle(input: &Input, settings: &Settings) -> Outcome {
    let index = Index::of(input, settings.task_priority);
    let (state, names) = State::of(&index, input);
    let (quotas, entitled) = Quotas::of(&state, input, settings);
    let tasks = index.tasks.len();
    let mut jobs = 0..index.jobs.len();
    let mut cycle = Cycle {
        promised_more: jobs.any(|job| state.promised_more(job)),
        rules: Rules { index: &index, entitled: &entitled, settings },
        state,
        quotas,
        obstacles: Vec::new(),
        ended_for: vec![None; tasks],
    };
    cycle.run();
    Outcome::of(&cycle, input, &names)
}
