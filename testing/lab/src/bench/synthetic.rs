//! A very large cluster around the real state machine: nodes with eight GPUs and agents that answer
//! at once, a store in memory, and many users.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_cli::failure::Result;
use gpool_control::Control;
use gpool_model::agent::{Order, Report, Stamp, TaskEnd, TaskIs, TaskReport};
use gpool_model::job::{BlobId, ExitStatus, JobState, Owner, Usage};
use gpool_model::{
    Bytes, Caller, Command, Device, DeviceUuid, Effect, Event, GpuRequest, JobRequest, MilliCpu,
    Millis, NewJob, NodeName, Policy, RequestId, Resources, TaskId, Timestamp,
};

use gpool_model::record::Record;

use super::failed;

/// Devices of each node.
pub const DEVICES: u32 = 8;
/// Users that submit in turn.
pub const USERS: u32 = 1000;

/// Jobs of one submission while the cluster is filled.
const BATCH: u32 = 1000;

/// The cluster.
pub struct Fleet {
    control: Control,
    now: Timestamp,
    last_request: RequestId,
    /// Orders that the agents have not answered.
    orders: Vec<(NodeName, Order)>,
}

impl Fleet {
    /// Creates connected nodes without jobs.
    ///
    /// # Errors
    /// The state machine refuses something.
    pub fn new(n_nodes: u32) -> Result<Self> {
        let mut fleet = Self {
            control: Control::create(Policy::fair()),
            now: Timestamp::new(1_000_000),
            last_request: RequestId(0),
            orders: Vec::new(),
        };
        let term = fleet.control.world().cluster().term.next();
        fleet.step(vec![Event::ServerStarted { term, n_skipped_jobs: 0 }])?;
        let nodes = 0..n_nodes;
        let report = |n, report| Event::Reported { node: node_name(n), report };
        fleet.step(nodes.clone().map(|n| report(n, inventory(n))).collect())?;
        let asked = fleet.orders.iter().find_map(|(_, order)| match order {
            Order::Sync { round, .. } => Some(*round),
            _ => None,
        });
        let round = asked.unwrap_or_default();
        let stamp = Stamp::default();
        let tasks = Report::Tasks { stamp, term, round, tasks: Vec::new() };
        fleet.orders.clear();
        fleet.step(nodes.map(|n| report(n, tasks.clone())).collect())?;
        Ok(fleet)
    }

    /// Applies events in one step; returns the time of the state machine, with the answer of the
    /// commit.
    ///
    /// # Errors
    /// A plan broke an invariant, or a request was refused.
    pub fn step(&mut self, events: Vec<Event>) -> Result<Duration> {
        self.now = self.now.after(Millis::from_secs(1));
        let mut events = Some(events);
        let mut took = Duration::ZERO;
        while let Some(now_events) = events.take() {
            let began = Instant::now();
            let effects = self.control.step(self.now, now_events);
            took += began.elapsed();
            for effect in effects {
                match effect {
                    Effect::Commit(commit) => {
                        events = Some(vec![Event::Committed { revision: commit.revision }]);
                    }
                    Effect::Order { node, order, .. } => self.orders.push((node, order)),
                    Effect::Reply { reply: Ok(_), .. }
                    | Effect::Deliver(_)
                    | Effect::Readmit(_)
                    | Effect::Publish(_) => {}
                    Effect::Reply { reply: Err(refusal), .. } => {
                        return Err(failed(format!("a submission was refused: {refusal:?}")));
                    }
                    Effect::Alert(alert) => return Err(failed(alert.violations.join("; "))),
                }
            }
        }
        Ok(took)
    }

    /// A submission of these jobs by one of the users.
    pub fn submission(&mut self, user: u32, jobs: Vec<NewJob>) -> Event {
        self.last_request = self.last_request.next();
        let uid = 10_000 + user % USERS;
        let user: Arc<str> = Arc::from(format!("user{uid}"));
        let caller = Caller::new(Owner { uid, gid: uid, user }, false);
        let command = Command::Submit {
            jobs,
            key: None,
            ends: Vec::new(),
            array_ends: Vec::new(),
            dry_run: false,
        };
        Event::Requested { request: self.last_request, caller, command }
    }

    /// A request by an admin.
    pub fn by_admin(&mut self, command: Command) -> Event {
        self.last_request = self.last_request.next();
        let caller = Caller::new(Owner { uid: 0, gid: 0, user: Arc::from("root") }, true);
        Event::Requested { request: self.last_request, caller, command }
    }

    /// The answers of the agents to their orders: that a task runs, and with `ends` also that it
    /// has ended.
    pub fn answers(&mut self, ends: bool) -> Vec<Event> {
        let mut events = Vec::new();
        for (node, order) in std::mem::take(&mut self.orders) {
            let run = match order {
                Order::Run(run) => run,
                Order::Stop { task, .. } => {
                    events.extend(self.end(task));
                    continue;
                }
                _ => continue,
            };
            let task = run.task();
            let mut say = |is| {
                let report = TaskReport { task, generation: run.generation, is };
                events.push(Event::Reported { node: node.clone(), report: Report::Task(report) });
            };
            say(TaskIs::Running { pid: 1000, started_at: self.now });
            if ends {
                say(self.end_of_task());
            }
        }
        events
    }

    /// The agent's report that a task has ended.
    pub fn end(&self, task: TaskId) -> Option<Event> {
        let row = self.control.world().job(task.job)?;
        let allocation = row.job.phase.allocations().first()?;
        let generation = row.job.generation;
        let report = TaskReport { task, generation, is: self.end_of_task() };
        Some(Event::Reported { node: allocation.node.clone(), report: Report::Task(report) })
    }

    fn end_of_task(&self) -> TaskIs {
        TaskIs::Ended(TaskEnd {
            started_at: Some(self.now),
            ended_at: self.now,
            exit: Some(ExitStatus::Code(0)),
            cause: None,
            stopped: false,
            usage: Usage::default(),
            steps: gpool_model::Rare::default(),
        })
    }

    /// The records of the whole state.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.control.world().records()
    }

    /// The tasks with devices, by job.
    pub fn tasks(&self) -> Vec<TaskId> {
        let holding = self.control.world().holding();
        holding.flat_map(|row| row.job.phase.allocations()).map(|held| held.task).collect()
    }

    /// Number of jobs that hold a loan and can be victims.
    pub fn n_on_loan(&self) -> usize {
        self.control.world().project_rows().iter().map(|row| row.evictable.len()).sum()
    }

    /// Submits jobs until every device is taken and at least `n_pending` of them wait. Agents
    /// answer `n_rounds` times after each submission. Returns the seconds that all steps took.
    ///
    /// # Errors
    /// The state machine refuses something.
    pub fn fill(
        &mut self,
        n_pending: u32,
        n_rounds: usize,
        job: impl Fn(u32) -> NewJob,
    ) -> Result<f64> {
        let mut took = Duration::ZERO;
        let mut n = 0;
        let wanted = usize::try_from(n_pending).unwrap_or(usize::MAX);
        while self.n_pending() < wanted {
            let size = BATCH.min(n_pending);
            let event = self.submission(n / size, (n..n + size).map(&job).collect());
            took += self.step(vec![event])?;
            for _ in 0..n_rounds {
                let answers = self.answers(false);
                took += self.step(answers)?;
            }
            n += size;
        }
        Ok(took.as_secs_f64())
    }

    /// Number of jobs that should end and have not.
    pub fn n_leaving(&self) -> usize {
        let holding = self.control.world().holding();
        holding.filter(|row| row.job.phase.state() == JobState::Stopping).count()
    }

    /// Number of pending jobs.
    pub fn n_pending(&self) -> usize {
        usize::try_from(self.control.world().n_pending()).unwrap_or(usize::MAX)
    }

    /// Number of jobs that have not ended.
    pub fn n_live(&self) -> usize {
        self.control.world().jobs().len()
    }

    /// Number of shapes of waiting jobs.
    pub fn n_shapes(&self) -> usize {
        self.control.world().shapes().count()
    }
}

fn node_name(n: u32) -> NodeName {
    NodeName::new(format!("node{n:05}"))
}

fn inventory(n: u32) -> Report {
    let device = |index| {
        Device::new(
            index,
            DeviceUuid::new(format!("GPU-{n:05}-{index}")),
            "NVIDIA H100 80GB HBM3".to_owned(),
            Bytes::from_gib(80),
        )
    };
    let room = Resources::none().with_cpus(MilliCpu::new(192_000));
    Report::Inventory {
        stamp: Stamp::default(),
        capacity: room.with_memory(Bytes::from_gib(2048)).with_tasks(1000),
        devices: (0..DEVICES).map(device).collect(),
        boot_id: "boot".to_owned(),
        facts: Box::default(),
    }
}

/// A job of one of 320 kinds, which differ in GPUs, model, cores, memory and time limit.
pub fn job(kind: u32) -> NewJob {
    let pick = |divisor: u32, of: u32| kind / divisor % of;
    let n_gpus = [1, 2, 4, 8][pick(1, 4) as usize];
    let written = match pick(4, 2) {
        0 => n_gpus.to_string(),
        _ => format!("h100:{n_gpus}"),
    };
    let cpus = [0, 4000, 8000, 16_000][pick(8, 4) as usize];
    let memory = [0, 64][pick(32, 2) as usize];
    let hours = [1, 4, 12, 24, 48][pick(64, 5) as usize];
    NewJob {
        context: BlobId(Arc::from("none")),
        request: JobRequest {
            name: Arc::from("train"),
            command: vec!["python".to_owned(), "train.py".to_owned(), format!("--run={kind}")],
            directory: "/home".to_owned(),
            gpus: GpuRequest::parse(&written).unwrap_or_else(|_| GpuRequest::whole(n_gpus)),
            gpus_written: Arc::from(written),
            cpus: (cpus > 0).then(|| MilliCpu::new(cpus)),
            memory: (memory > 0).then(|| Bytes::from_gib(memory)),
            time_limit: Some(Millis::from_hours(hours)),
            grace: Millis::from_secs(10),
            ..JobRequest::default()
        },
        ..NewJob::default()
    }
}
