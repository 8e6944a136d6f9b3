//! A cluster that no machine has, around the real state machine: agents that answer at once, and a
//! store that is as fast as memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_control::Control;
use gpool_model::agent::{Order, Report, Stamp, TaskEnd, TaskIs, TaskReport};
use gpool_model::job::{BlobId, ExitStatus, Owner, Usage};
use gpool_model::node::NodeFacts;
use gpool_model::{
    Bytes, Caller, Command, Device, DeviceHealth, DeviceUuid, Effect, Event, Gang, Generation,
    GpuRequest, Life, MilliCpu, Millis, NewJob, NodeName, Policy, ProjectName, Refusal, RequestId,
    Resources, TaskId, Timestamp,
};

/// Nodes that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    /// How many.
    pub n: u32,
    /// Devices of each.
    pub n_gpus: u32,
}

/// What agents were told, of one task.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// To run it, there, on these devices.
    Run(NodeName, TaskId, Generation, Vec<u32>),
    /// To end it.
    Stop(TaskId),
}

/// What came of a step.
#[derive(Debug, Default)]
pub(crate) struct Came {
    pub told: Vec<Told>,
    /// Why submissions were refused, in their order; `None` where they were taken.
    pub refused: Vec<Option<Refusal>>,
    /// What a plan broke.
    pub violations: Vec<String>,
}

/// Users have numbers from this one on.
const FIRST_UID: u32 = 1_000;

/// The cluster.
pub(crate) struct Fleet {
    pub control: Control,
    last_request: RequestId,
    /// Users by number.
    users: BTreeMap<Arc<str>, u32>,
}

impl Fleet {
    /// So many nodes, all connected, without jobs.
    pub fn new(nodes: Nodes, policy: Policy, now: Timestamp) -> Self {
        let mut fleet = Self {
            control: Control::create(policy),
            last_request: RequestId(0),
            users: BTreeMap::new(),
        };
        let term = fleet.control.world().cluster().term.next();
        let started = Event::ServerStarted { term, n_skipped_jobs: 0 };
        fleet.effects(now, vec![started]);
        let report = |n, report| Event::Reported { node: node_name(n), report };
        let all = 0..nodes.n;
        let told = fleet
            .effects(now, all.clone().map(|n| report(n, inventory(n, nodes.n_gpus))).collect());
        let asked = told.iter().find_map(|effect| match effect {
            Effect::Order { order: Order::Sync { round, .. }, .. } => Some(*round),
            _ => None,
        });
        let round = asked.unwrap_or_default();
        let tasks = Report::Tasks { stamp: Stamp::default(), term, round, tasks: Vec::new() };
        fleet.effects(now, all.map(|n| report(n, tasks.clone())).collect());
        fleet
    }

    /// Lets these happen together; all of it is durable at once.
    pub fn step(&mut self, now: Timestamp, events: Vec<Event>) -> Came {
        let mut came = Came::default();
        for effect in self.effects(now, events) {
            match effect {
                Effect::Order { node, order: Order::Run(run), .. } => {
                    let devices = run.allocation.slots.iter().map(|slot| slot.index).collect();
                    came.told.push(Told::Run(node, run.task(), run.generation, devices));
                }
                Effect::Order { order: Order::Stop { task, .. }, .. } => {
                    came.told.push(Told::Stop(task));
                }
                Effect::Reply { reply, .. } => came.refused.push(reply.err()),
                Effect::Alert { violations, .. } => came.violations.extend(violations),
                Effect::Commit(_)
                | Effect::Order { .. }
                | Effect::Deliver(_)
                | Effect::Publish(_) => {}
            }
        }
        came
    }

    fn effects(&mut self, now: Timestamp, events: Vec<Event>) -> Vec<Effect> {
        let mut all = Vec::new();
        let mut events = Some(events);
        while let Some(now_events) = events.take() {
            for effect in self.control.step(now, now_events) {
                if let Effect::Commit(commit) = &effect {
                    events = Some(vec![Event::Committed { revision: commit.revision }]);
                }
                all.push(effect);
            }
        }
        all
    }

    /// A submission of one job by a user.
    pub fn submission(&mut self, user: &Arc<str>, job: NewJob) -> Event {
        self.last_request = self.last_request.next();
        let next = u32::try_from(self.users.len()).unwrap_or(u32::MAX).saturating_add(FIRST_UID);
        let uid = *self.users.entry(Arc::clone(user)).or_insert(next);
        let owner = Owner { uid, gid: uid, user: Arc::clone(user) };
        let command = Command::Submit {
            jobs: vec![job],
            key: None,
            ends: Vec::new(),
            array_ends: Vec::new(),
            dry_run: false,
        };
        Event::Requested { request: self.last_request, caller: Caller::new(owner, false), command }
    }
}

/// The report of an agent about a task.
pub(crate) fn says(node: &NodeName, task: TaskId, generation: Generation, is: TaskIs) -> Event {
    let report = TaskReport { task, generation, is };
    Event::Reported { node: node.clone(), report: Report::Task(report) }
}

/// That a task has ended.
pub(crate) fn end(now: Timestamp, started_at: Timestamp, stopped: bool) -> TaskIs {
    TaskIs::Ended(TaskEnd {
        started_at: Some(started_at),
        ended_at: now,
        exit: Some(ExitStatus::Code(0)),
        cause: None,
        stopped,
        usage: Usage::default(),
    })
}

fn node_name(n: u32) -> NodeName {
    NodeName::new(format!("node{n:05}"))
}

/// The number of a node of that name.
pub(crate) fn number_of(node: &NodeName) -> u32 {
    let digits = node.as_str().trim_start_matches(|letter: char| !letter.is_ascii_digit());
    digits.parse().unwrap_or_default()
}

/// A name for all jobs of that size: lengths are told from jobs whose names differ in digits alone.
fn name_of_size(n_gpus: u32) -> String {
    let letter = |digit: char| digit.to_digit(10).map_or('x', |digit| SIZE_LETTERS[digit as usize]);
    n_gpus.to_string().chars().map(letter).collect()
}

/// In place of digits.
const SIZE_LETTERS: [char; 10] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];

fn inventory(n: u32, n_gpus: u32) -> Report {
    let device = |index| Device {
        index,
        uuid: DeviceUuid::new(format!("GPU-{n:05}-{index}")),
        model: "GPU".to_owned(),
        memory: Bytes::from_gib(80),
        pci_bus: String::new(),
        minor: None,
        numa: None,
        links: BTreeMap::new(),
        mig: None,
        health: DeviceHealth::Healthy,
        unmanaged: Vec::new(),
        strays: Vec::new(),
        overshoots: Vec::new(),
        tells_memory: None,
    };
    let room = Resources::none().with_cpus(MilliCpu::new(1_000_000));
    Report::Inventory {
        stamp: Stamp::default(),
        capacity: room.with_memory(Bytes::from_gib(4096)).with_tasks(100_000),
        devices: (0..n_gpus).map(device).collect(),
        boot_id: "boot".to_owned(),
        facts: NodeFacts::default(),
    }
}

/// A job that asks for so many devices on each of so many nodes.
pub(crate) fn new_job(n_gpus: u32, n_nodes: u32, time_limit: Option<Millis>) -> NewJob {
    NewJob {
        array: None,
        retry_of: None,
        gang: Gang { nodes: n_nodes, nodes_most: n_nodes, ..Gang::SINGLE },
        torchrun: false,
        name: Arc::from(name_of_size(n_gpus.saturating_mul(n_nodes))),
        project: ProjectName::new("default"),
        pool: None,
        command: vec!["true".to_owned()],
        script: None,
        context: BlobId(Arc::from("none")),
        directory: "/".to_owned(),
        stdin: None,
        stdout: None,
        stderr: None,
        pty: None,
        activate: Vec::new(),
        after_setup: false,
        gpus: GpuRequest::whole(n_gpus),
        gpus_written: Arc::from(n_gpus.to_string()),
        cpus: None,
        memory: None,
        time_limit,
        grace: Millis::ZERO,
        after: Vec::new(),
        life: Life::default(),
        allow_unsatisfiable: false,
        compat: Vec::new(),
        priority: 0,
        note: None,
        notify: Vec::new(),
        hold: false,
    }
}
