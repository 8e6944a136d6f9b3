//! A simulated cluster around the real state machine: agents answer at once, and the store is in
//! memory.

use std::collections::BTreeMap;

use gpool_control::Control;
use gpool_model::agent::{Order, Report, Stamp, TaskEnd, TaskIs, TaskReport};
use gpool_model::job::{ExitStatus, Owner, Usage};
use gpool_model::{
    Caller, Command, Effect, Event, Generation, JobNumber, MilliGpu, NewJob, Node, NodeName,
    Refusal, Reply, RequestId, Slot, TaskId, Timestamp,
};

use crate::cluster::{Cluster, durable};

/// An order to an agent about one task.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// Run the task.
    Run(Start),
    /// End the task.
    Stop(TaskId),
}

/// A task to run.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub node: NodeName,
    pub task: TaskId,
    pub generation: Generation,
    /// The number of the node.
    pub number: u32,
    /// The numbers of the node and of its devices.
    pub devices: Vec<(u32, u32)>,
    /// The amount of the devices that it gets.
    pub gpus: MilliGpu,
}

/// The result of a step.
#[derive(Debug, Default)]
pub(crate) struct Came {
    pub told: Vec<Told>,
    /// The answers to submissions, in their order: the job's number, or the refusal.
    pub answers: Vec<Result<Option<JobNumber>, Refusal>>,
    /// The violations of a plan.
    pub violations: Vec<String>,
}

/// The cluster.
pub(crate) struct Fleet {
    pub control: Control,
    last_request: RequestId,
    /// Nodes by their numbers.
    numbers: BTreeMap<NodeName, u32>,
}

impl Fleet {
    /// Starts with all nodes connected and no jobs.
    pub fn start(cluster: Cluster) -> Self {
        let Cluster { mut control, nodes, began } = cluster;
        let term = control.world().cluster().term.next();
        let mut rounds = BTreeMap::new();
        let started = vec![Event::ServerStarted { term, n_skipped_jobs: 0 }];
        let numbers = (0..).zip(nodes.keys()).map(|(n, name)| (name.clone(), n)).collect();
        let inventories = nodes.into_values().map(inventory).collect();
        for events in [started, inventories] {
            for effect in durable(&mut control, began, events) {
                if let Effect::Order { node, order: Order::Sync { round, .. }, .. } = effect {
                    rounds.insert(node, round);
                }
            }
        }
        let answers = rounds.into_iter().map(|(node, round)| {
            let stamp = Stamp::default();
            let report = Report::Tasks { stamp, term, round, tasks: Vec::new() };
            Event::Reported { node, report }
        });
        durable(&mut control, began, answers.collect());
        Self { control, last_request: RequestId(0), numbers }
    }

    /// Processes events together; all commits are durable at once.
    pub fn step(&mut self, now: Timestamp, events: Vec<Event>) -> Came {
        let mut came = Came::default();
        for effect in durable(&mut self.control, now, events) {
            match effect {
                Effect::Order { node, order: Order::Run(run), .. } => {
                    let number = self.numbers.get(&node).copied().unwrap_or_default();
                    let slots = &run.allocation.slots;
                    let row = self.control.world().node(&node);
                    let devices = || row.into_iter().flat_map(|row| &row.node.devices);
                    let position = |slot: &Slot| {
                        let at = devices().position(|device| device.uuid == slot.device);
                        at.and_then(|at| u32::try_from(at).ok()).unwrap_or(slot.index)
                    };
                    let start = Start {
                        task: run.task(),
                        generation: run.generation,
                        number,
                        devices: slots.iter().map(|slot| (number, position(slot))).collect(),
                        gpus: slots.iter().fold(MilliGpu::ZERO, |sum, slot| {
                            sum.saturating_add(slot.part.charge())
                        }),
                        node: node.clone(),
                    };
                    came.told.push(Told::Run(start));
                }
                Effect::Order { order: Order::Stop { task, .. }, .. } => {
                    came.told.push(Told::Stop(task));
                }
                Effect::Reply { reply, .. } => came.answers.push(reply.map(|reply| match reply {
                    Reply::Submitted { first, .. } => Some(first),
                    _ => None,
                })),
                Effect::Alert(alert) => came.violations.extend(alert.violations),
                Effect::Commit(_)
                | Effect::Order { .. }
                | Effect::Deliver(_)
                | Effect::Readmit(_)
                | Effect::Publish(_) => {}
            }
        }
        came
    }

    /// A submission of one job by its owner with admin rights: its original submission already
    /// decided which projects the job may use.
    pub fn submission(&mut self, owner: Owner, job: NewJob) -> Event {
        let command = Command::Submit {
            jobs: vec![job],
            key: None,
            ends: Vec::new(),
            array_ends: Vec::new(),
            dry_run: false,
        };
        self.request(owner, command)
    }

    /// A request of an admin.
    pub fn request(&mut self, owner: Owner, command: Command) -> Event {
        self.last_request = self.last_request.next();
        Event::Requested { request: self.last_request, caller: Caller::new(owner, true), command }
    }
}

fn inventory(node: Node) -> Event {
    let Node { name, capacity, devices, boot_id, facts, .. } = node;
    let stamp = Stamp::default();
    let facts = Box::new(facts);
    let report = Report::Inventory { stamp, capacity, devices, boot_id, facts };
    Event::Reported { node: name, report }
}

/// An agent's report about a task.
pub(crate) fn says(node: &NodeName, task: TaskId, generation: Generation, is: TaskIs) -> Event {
    let report = TaskReport { task, generation, is };
    Event::Reported { node: node.clone(), report: Report::Task(report) }
}

pub(crate) fn end(now: Timestamp, started_at: Timestamp, stopped: bool) -> TaskIs {
    TaskIs::Ended(TaskEnd {
        started_at: Some(started_at),
        ended_at: now,
        exit: Some(ExitStatus::Code(0)),
        cause: None,
        stopped,
        usage: Usage::default(),
        steps: gpool_model::Rare::default(),
    })
}
