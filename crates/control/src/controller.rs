//! Controllers change the cluster outside the state machine, with facts or acts that the state
//! machine does not have: costs from the history, MIG instances of a driver.
//!
//! A controller is pure. In each round the server asks it for acts, carries them out in order, one
//! at a time, and reports each outcome to it. It compares the present state with the right one, and
//! relies on no event (Kubernetes: level-triggered). So it stores nothing: after a kill between any
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

/// The facts that a round needs. Most servers never need any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    State,
    /// The state, and the costs of this month.
    Costs,
    /// The state, and why jobs wait, which can take long.
    Reasons,
}

/// The facts of a round.
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
    /// The facts that a round needs in this state.
    fn needs(world: &World) -> Needs;

    /// The acts of this round, in order.
    fn round(&mut self, look: &Look<'_>) -> Vec<Act>;

    /// Takes note of how an act ended.
    fn note(&mut self, act: &Act, outcome: &Outcome, uptime: Duration) -> Next;
}
