//! The questions to the logic of nodes in a run, with its answers, to ask new nodes again.

use std::collections::BTreeMap;

use gpool_model::{Bytes, Millis, TaskId, Timestamp};
use gpool_node::converge::{Action, Converge, Input};
use gpool_node::loans::{self, Decision, Tenant};
use gpool_node::presence::{self, MemoryPresence};
use serde::{Deserialize, Serialize};

/// The longest time until a called loan is back.
pub(crate) const DEADLINE: Millis = Millis::from_secs(30);

/// A question to the logic of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// An agent starts, which knows these ended tasks.
    Start {
        node: usize,
        /// The tasks, oldest first.
        done: Vec<TaskId>,
    },
    /// An input of the agent.
    Input { node: usize, input: Box<Input> },
    /// Who gets the memory of a device?
    Divide {
        memory: Bytes,
        /// The time.
        now: Timestamp,
        /// The tasks.
        tenants: Vec<(Tenant, MemoryPresence)>,
    },
}

/// An answer of the logic of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The agent has started.
    Started,
    /// The actions, in order.
    Actions(Vec<Action>),
    /// The memory of each task.
    Plan(Vec<Decision>),
}

/// Nodes that know nothing but the questions that they were asked.
#[derive(Debug, Clone, Default)]
pub struct Nodes(BTreeMap<usize, Converge>);

impl Nodes {
    pub fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Start { node, done } => {
                self.0.insert(node, Converge::new(done));
                Answer::Started
            }
            Question::Input { node, input } => {
                Answer::Actions(self.0.entry(node).or_default().step(*input))
            }
            Question::Divide { memory, now, mut tenants } => {
                Answer::Plan(divide(memory, &mut tenants, now).0)
            }
        }
    }
}

/// Divides the memory of a device among its tasks, also those that are away; returns whether a task
/// is being restored, so that no other one may grow.
pub(crate) fn divide(
    memory: Bytes,
    tenants: &mut [(Tenant, MemoryPresence)],
    now: Timestamp,
) -> (Vec<Decision>, bool) {
    let mut present: Vec<(&mut Tenant, MemoryPresence)> =
        tenants.iter_mut().map(|(tenant, presence)| (tenant, *presence)).collect();
    let reserved = presence::reserve(memory, &mut present);
    let alone: Vec<Tenant> = tenants.iter().map(|(tenant, _)| *tenant).collect();
    let mut plan = loans::decide(memory, DEADLINE, &alone, now);
    reserved.apply(&mut plan, alone.iter());
    (plan, reserved.is_frozen)
}
