//! A state machine, a store that can be slow or fail, and one node with simulated devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_control::Control;
use gpool_model::JobRequest;
use gpool_model::agent::{Order, Report, Stamp, TaskEnd, TaskIs, TaskReport};
use gpool_model::job::{BlobId, ExitStatus, JobState, Owner, Usage};
use gpool_model::node::NodeFacts;
use gpool_model::record::EndedJob;
use gpool_model::*;

pub const NODE: &str = "lab1";

pub struct Harness {
    pub control: Control,
    pub now: Timestamp,
    pub records: BTreeMap<RecordKey, Record>,
    pub ended: Vec<EndedJob>,
    pub journal: Vec<JournalEntry>,
    /// Commits that were released and are not durable yet.
    pub in_flight: Vec<Revision>,
    pub replies: BTreeMap<RequestId, Result<Reply, Refusal>>,
    pub orders: Vec<Order>,
    /// The nodes with a lease that may be renewed again.
    pub readmitted: Vec<NodeName>,
    /// Sent messages, in order.
    pub sent: Vec<Delivery>,
    pub alerts: Vec<Alert>,
    /// Whether plans are corrupted, so that alerts are expected.
    pub is_wrong: bool,
    last_request: RequestId,
    last_sequence: u64,
    is_slow: bool,
}

impl Harness {
    /// A server in its first term, with a connected node of `n_devices` devices.
    pub fn new(n_devices: u32) -> Self {
        Self::with_policy(n_devices, Policy::fair())
    }

    /// The same with another policy.
    pub fn with_policy(n_devices: u32, policy: Policy) -> Self {
        let mut harness = Self::over(Control::create(policy));
        harness.begin();
        harness.report(inventory(n_devices));
        let term = harness.term();
        harness.report(tasks(term, vec![]));
        harness.orders.clear();
        harness
    }

    fn over(control: Control) -> Self {
        Self {
            control,
            now: Timestamp::new(1_000_000),
            records: BTreeMap::new(),
            ended: Vec::new(),
            journal: Vec::new(),
            in_flight: Vec::new(),
            replies: BTreeMap::new(),
            orders: Vec::new(),
            readmitted: Vec::new(),
            sent: Vec::new(),
            alerts: Vec::new(),
            is_wrong: false,
            last_request: RequestId(0),
            last_sequence: 0,
            is_slow: false,
        }
    }

    /// Kills the server; another one takes over the durable state.
    pub fn restart(&mut self) {
        let revision = self.control.durable();
        let records = self.records.values().cloned();
        let world = gpool_world::World::load(revision, records).expect("records fit together");
        self.control = Control::new(world);
        self.in_flight.clear();
        self.replies.clear();
        self.orders.clear();
        self.is_slow = false;
        self.begin();
    }

    fn begin(&mut self) {
        let term = self.term().next();
        self.step(vec![Event::ServerStarted { term, n_skipped_jobs: 0 }]);
    }

    pub fn term(&self) -> Term {
        self.control.world().cluster().term
    }

    /// Makes commits not durable until [`Self::catch_up`].
    pub fn slow_store(&mut self) {
        self.is_slow = true;
    }

    pub fn catch_up(&mut self) {
        self.is_slow = false;
        let revision = self.in_flight.last().copied();
        self.in_flight.clear();
        if let Some(revision) = revision {
            self.step(vec![Event::Committed { revision }]);
        }
    }

    pub fn step(&mut self, events: Vec<Event>) {
        let mut committed = None;
        for effect in self.control.step(self.now, events) {
            match effect {
                Effect::Commit(commit) => committed = Some(self.store(commit)),
                Effect::Reply { request, reply } => drop(self.replies.insert(request, reply)),
                Effect::Order { order, .. } => self.orders.push(order),
                Effect::Deliver(delivery) => self.sent.push(*delivery),
                Effect::Publish(_) => {}
                Effect::Readmit(node) => self.readmitted.push(node),
                Effect::Alert(alert) => self.alerts.push(*alert),
            }
        }
        assert!(self.is_wrong || self.alerts.is_empty(), "{:?}", self.alerts);
        if let Some(revision) = committed {
            self.in_flight.push(revision);
            if !self.is_slow {
                self.catch_up();
            }
        }
    }

    fn store(&mut self, commit: Commit) -> Revision {
        for RecordChange { key, value } in commit.records {
            match value {
                Some(record) => drop(self.records.insert(key, record)),
                None => drop(self.records.remove(&key)),
            }
        }
        self.ended.extend(commit.ended);
        self.journal.extend(commit.journal);
        commit.revision
    }

    pub fn report(&mut self, mut report: Report) {
        if let Report::Inventory { stamp, .. } | Report::Tasks { stamp, .. } = &mut report
            && stamp.sequence == 0
        {
            self.last_sequence += 1;
            stamp.sequence = self.last_sequence;
        }
        self.step(vec![Event::Reported { node: NodeName::new(NODE), report }]);
    }

    /// Sends a request and returns its ID, for an answer that may come later.
    pub fn ask(&mut self, caller: &Caller, command: Command) -> RequestId {
        let request = self.last_request.next();
        self.last_request = request;
        self.step(vec![Event::Requested { request, caller: caller.clone(), command }]);
        request
    }

    pub fn command(&mut self, caller: &Caller, command: Command) -> Result<Reply, Refusal> {
        let request = self.ask(caller, command);
        self.replies.remove(&request).expect("a fast store answers at once")
    }

    pub fn submit(&mut self, caller: &Caller, jobs: Vec<NewJob>) -> Result<Reply, Refusal> {
        let submit =
            Command::Submit { jobs, key: None, ends: vec![], array_ends: vec![], dry_run: false };
        self.command(caller, submit)
    }

    /// Submits one job and returns its ID.
    pub fn add(&mut self, job: NewJob) -> JobId {
        match self.submit(&ana(), vec![job]) {
            Ok(Reply::Submitted { first, .. }) => JobId { number: first, element: None },
            other => panic!("not taken: {other:?}"),
        }
    }

    pub fn state(&self, id: JobId) -> JobState {
        let ended = self.ended.iter().find(|ended| ended.id() == id);
        match (self.control.world().job(id), ended) {
            (Some(row), None) => row.job.phase.state(),
            (None, Some(ended)) => ended.job.phase.state(),
            other => panic!("job {id} is nowhere or twice: {other:?}"),
        }
    }

    pub fn end_of(&self, id: JobId) -> &JobEnd {
        let ended = self.ended.iter().find(|ended| ended.id() == id).expect("it has ended");
        match &ended.job.phase {
            Phase::Ended(end) => end,
            other => panic!("archived in phase {other:?}"),
        }
    }

    pub fn task_of(&self, id: JobId) -> TaskId {
        let row = self.control.world().job(id).expect("it is live");
        row.job.phase.allocations()[0].task
    }

    pub fn say(&mut self, id: JobId, is: TaskIs) {
        let row = self.control.world().job(id).expect("it is live");
        let generation = row.job.generation;
        let task = self.task_of(id);
        self.report(Report::Task(TaskReport { task, generation, is }));
    }

    pub fn started(&mut self, id: JobId) {
        let started_at = self.now;
        self.say(id, TaskIs::Running { pid: 4242, started_at });
    }

    pub fn exited(&mut self, id: JobId, code: i32) {
        let end = end(self.now, Some(ExitStatus::Code(code)), false);
        self.say(id, TaskIs::Ended(end));
    }

    /// Takes the orders since the last call.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }
}

pub fn end(now: Timestamp, exit: Option<ExitStatus>, stopped: bool) -> TaskEnd {
    let usage = Usage::default();
    TaskEnd {
        started_at: Some(now),
        ended_at: now,
        exit,
        cause: None,
        stopped,
        usage,
        steps: gpool_model::Rare::default(),
    }
}

pub fn device(index: u32) -> Device {
    Device::new(
        index,
        DeviceUuid::new(format!("GPU-{index}")),
        "NVIDIA H100-80G".to_owned(),
        Bytes::from_gib(80),
    )
}

/// The stamp of the only agent, without the number that the report gets.
pub fn stamp() -> Stamp {
    Stamp { incarnation: Incarnation::new("agent"), sequence: 0 }
}

/// The answer to the first question of that term.
pub fn tasks(term: Term, tasks: Vec<TaskReport>) -> Report {
    Report::Tasks { stamp: stamp(), term, round: Round(1), tasks }
}

pub fn inventory(n_devices: u32) -> Report {
    let memory = Bytes::from_gib(64);
    let mut capacity =
        Resources::none().with_cpus(MilliCpu::from_cores(16)).with_memory(memory).with_tasks(32);
    capacity.set(ResourceKind::PauseMemory, memory.get());
    let facts = NodeFacts { devices_from: "simulated".to_owned(), ..NodeFacts::default() };
    Report::Inventory {
        stamp: stamp(),
        capacity,
        devices: (0..n_devices).map(device).collect(),
        boot_id: "boot-1".to_owned(),
        facts: Box::new(facts),
    }
}

pub fn caller(user: &str, uid: u32, admin: bool) -> Caller {
    Caller::new(Owner { uid, gid: uid, user: Arc::from(user) }, admin)
}

pub fn ana() -> Caller {
    caller("ana", 1000, false)
}

pub fn bo() -> Caller {
    caller("bo", 1001, false)
}

pub fn root() -> Caller {
    caller("root", 0, true)
}

/// A job that asks for these GPUs.
pub fn job(gpus: &str) -> NewJob {
    NewJob {
        context: BlobId(Arc::from("context")),
        request: JobRequest {
            name: Arc::from("job"),
            command: vec!["true".to_owned()],
            gpus: GpuRequest::parse(gpus).expect("valid"),
            gpus_written: Arc::from(gpus),
            grace: Millis::from_secs(30),
            ..JobRequest::default()
        },
        ..NewJob::default()
    }
}

pub fn after(mut job: NewJob, id: JobId, kind: DependencyKind) -> NewJob {
    job.after.push(Dependency::new(id, kind));
    job
}
