//! Controllers: what the server changes beside the state machine, because it takes facts or acts
//! that the state machine does not have: costs from the history, instances of a GPU's driver.
//!
//! A controller is pure. The server asks it once a round, carries out its acts in order, one at a
//! time, and tells it each outcome. It compares the state with what should be, and never relies on
//! an event (Kubernetes calls that level-triggered). So it stores nothing: after a kill between any
//! two acts, a new one goes on from the state.

mod budgets;
mod instances;

use std::time::Duration;

use gpool_model::budget::MonthSpending;
use gpool_model::{Command, DeviceUuid};
use gpool_sched::Explainer;
use gpool_sched::mig_plan::MigStep;
use gpool_world::World;

pub use budgets::BudgetController;
pub use instances::{MigController, mig_steps};

/// What a round needs to know. Most servers need most controllers never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    State,
    /// The state, and the costs of this month.
    Costs,
    /// The state, and why jobs wait, which can take long.
    Reasons,
}

/// What a controller sees in a round.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub world: &'a World,
    pub explainer: &'a Explainer<'a>,
    /// Every budget with the cost of this month; empty unless it is needed.
    pub costs: &'a [MonthSpending],
    /// Time since the start of the server, by a monotonic clock.
    pub uptime: Duration,
}

/// A change that a controller wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Command(Box<Command>),
    ChangeInstances(Box<MigStep>),
}

/// How an act ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The new instance. The state has it with the next report of its node.
    Created(DeviceUuid),
    /// The state has changed meanwhile, so that the act is no longer possible.
    Outdated,
    Failed,
}

/// Whether the round goes on with its next act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Act,
    Round,
}

pub trait Controller: Default + Clone + Send + 'static {
    /// What a round needs in this state.
    fn needs(world: &World) -> Needs;

    /// What to do now, in order.
    fn round(&mut self, look: &Look<'_>) -> Vec<Act>;

    /// Takes note of how an act ended.
    fn note(&mut self, act: &Act, outcome: &Outcome, uptime: Duration) -> Next;
}
