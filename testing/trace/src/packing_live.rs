//! Tasks of an experiment placed by the real scheduler.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::TaskIs;
use gpool_model::job::Owner;
use gpool_model::pattern::ModelPattern;
use gpool_model::{
    Bytes, Command, Event, Exit, GpuAmount, GpuRequest, JobId, JobVerb, MilliCpu, MilliGpu, Millis,
    NewJob, Policy, Resources, Share, Timestamp,
};
use gpool_sched::fragmentation::{FreePart, Mix, TaskDemand, WHOLE};

use crate::cluster::{self, Cluster};
use crate::coming::new_job;
use crate::fleet::{Came, Fleet, Start, Told, end, says};
use crate::jobs::EPOCH;
use crate::packer::fragment;
use crate::queue::PlayError;

/// The time between two events.
const STEP: Millis = Millis::from_secs(1);

/// The number for no model: real ones are below 64.
const NO_MODEL: u32 = u32::MAX;

/// The cluster of an experiment under the real scheduler.
pub(crate) struct Live<'a> {
    fleet: Fleet,
    now: Timestamp,
    mix: &'a Mix,
    /// The numbers of the existing models.
    models: BTreeSet<u32>,
    /// The free capacity of each node, with its devices by index.
    left: Vec<FreePart>,
    /// Whether tasks may move for others: then every task says that it saves its work.
    may_move: bool,
    /// How long a task waits for each task that would have to move for it.
    wait_for_a_move: Millis,
    tasks: BTreeMap<u64, Task>,
    by_job: BTreeMap<JobId, u64>,
    /// Tasks that were moved and have found no other place yet.
    displaced: BTreeSet<u64>,
    n_moves: u64,
}

/// A task that was submitted.
struct Task {
    ask: TaskDemand,
    job: JobId,
    /// Where it runs and since when; `None` while it does not fit.
    runs: Option<(Start, Timestamp)>,
}

impl<'a> Live<'a> {
    /// An empty cluster with this capacity of each node, in the order of names.
    pub fn new(nodes: &[FreePart], mix: &'a Mix, mut policy: Policy, may_move: bool) -> Self {
        policy.consolidate |= may_move;
        let node = |(n, left): (u32, &FreePart)| {
            let mut node = cluster::node(n, u32::try_from(left.free.len()).unwrap_or(u32::MAX));
            let room = Resources::none().with_cpus(MilliCpu::new(left.cpus));
            node.capacity = room.with_memory(Bytes::new(left.memory)).with_tasks(100_000);
            node.devices.iter_mut().for_each(|device| device.model = model(left.model));
            (node.name.clone(), node)
        };
        let wait_for_a_move = policy.wait_for_a_move();
        Self {
            fleet: Fleet::start(Cluster::of_nodes((0..).zip(nodes).map(node).collect(), policy)),
            now: EPOCH,
            mix,
            models: nodes.iter().map(|node| node.model).collect(),
            left: nodes.to_vec(),
            may_move,
            wait_for_a_move,
            tasks: BTreeMap::new(),
            by_job: BTreeMap::new(),
            displaced: BTreeSet::new(),
            n_moves: 0,
        }
    }

    /// Returns the free thousandths of devices.
    pub fn idle(&self) -> u64 {
        self.left.iter().map(FreePart::gpus).sum()
    }

    /// Returns the expected thousandths of devices that are idle and of no use to the next task.
    pub fn fragment(&self) -> u64 {
        let of = |left: &FreePart| {
            let mut left = left.clone();
            left.free.sort_unstable();
            fragment(&left, self.mix)
        };
        self.left.iter().map(of).sum::<u64>() / 1_000_000
    }

    /// Returns how many moves there were so far.
    pub fn n_moves(&self) -> u64 {
        self.n_moves
    }

    /// Returns the thousandths of devices that moved tasks without a place ask for.
    pub fn displaced(&self) -> u64 {
        self.displaced.iter().filter_map(|it| self.tasks.get(it)).map(|it| it.ask.gpus()).sum()
    }

    /// Submits a task as a job. Returns whether it starts at once, or within the time for `n_moves`
    /// moves; otherwise cancels it.
    pub fn place(
        &mut self,
        task: u64,
        ask: &TaskDemand,
        n_moves: usize,
    ) -> Result<bool, PlayError> {
        let submitted = self.fleet.submission(owner(), self.job(ask));
        let came = self.step(vec![submitted])?;
        let Some(Ok(Some(number))) = came.answers.into_iter().next() else { return Ok(false) };
        let job = JobId::single(number.0);
        self.by_job.insert(job, task);
        self.tasks.insert(task, Task { ask: *ask, job, runs: None });
        self.obey(came.told)?;
        for _ in 0..n_moves {
            if self.runs(task) {
                break;
            }
            self.now = self.now.after(self.wait_for_a_move);
            let came = self.step(vec![Event::TimerFired])?;
            self.obey(came.told)?;
        }
        let runs = self.runs(task);
        if !runs {
            self.remove(task)?;
        }
        Ok(runs)
    }

    fn runs(&self, task: u64) -> bool {
        self.tasks.get(&task).is_some_and(|task| task.runs.is_some())
    }

    /// Ends a task, wherever it is.
    pub fn remove(&mut self, task: u64) -> Result<(), PlayError> {
        let Some(Task { ask, job, runs }) = self.tasks.remove(&task) else { return Ok(()) };
        self.by_job.remove(&job);
        self.displaced.remove(&task);
        let event = match runs {
            Some(runs) => self.ended(&ask, &runs, false),
            None => self.fleet.request(owner(), Command::on(vec![job], JobVerb::Cancel)),
        };
        let came = self.step(vec![event])?;
        self.obey(came.told)
    }

    /// Carries out the orders of agents until there are no more.
    fn obey(&mut self, mut told: Vec<Told>) -> Result<(), PlayError> {
        while !told.is_empty() {
            let events = told.into_iter().filter_map(|told| match told {
                Told::Run(start) => self.start(start),
                Told::Stop(task) => self.stop(task.job),
            });
            let events = events.collect();
            told = self.step(events)?.told;
        }
        Ok(())
    }

    fn start(&mut self, start: Start) -> Option<Event> {
        let number = *self.by_job.get(&start.task.job)?;
        let ask = self.tasks.get(&number)?.ask;
        self.displaced.remove(&number);
        let started_at = self.now;
        let is = TaskIs::Running { pid: 1, started_at };
        let event = says(&start.node, start.task, start.generation, is);
        self.change(&start, |left, devices| {
            left.cpus = left.cpus.saturating_sub(ask.cpus);
            left.memory = left.memory.saturating_sub(ask.memory);
            devices.iter().for_each(|at| left.free[*at] = left.free[*at].saturating_sub(ask.part));
        });
        self.tasks.get_mut(&number)?.runs = Some((start, started_at));
        Some(event)
    }

    fn stop(&mut self, job: JobId) -> Option<Event> {
        let number = *self.by_job.get(&job)?;
        let task = self.tasks.get_mut(&number)?;
        let (ask, runs) = (task.ask, task.runs.take()?);
        self.displaced.insert(number);
        self.n_moves += 1;
        Some(self.ended(&ask, &runs, true))
    }

    /// Frees the devices of a task.
    fn ended(
        &mut self,
        ask: &TaskDemand,
        (start, started_at): &(Start, Timestamp),
        told: bool,
    ) -> Event {
        self.change(start, |left, devices| {
            left.cpus += ask.cpus;
            left.memory += ask.memory;
            devices.iter().for_each(|at| left.free[*at] += ask.part);
        });
        says(&start.node, start.task, start.generation, end(self.now, *started_at, told))
    }

    fn step(&mut self, events: Vec<Event>) -> Result<Came, PlayError> {
        self.now = self.now.after(STEP);
        let came = self.fleet.step(self.now, events);
        match came.violations.is_empty() {
            true => Ok(came),
            false => Err(PlayError::Violation(came.violations)),
        }
    }

    fn change(&mut self, start: &Start, change: impl FnOnce(&mut FreePart, &[usize])) {
        let devices: Vec<usize> = start.devices.iter().map(|(_, ix)| *ix as usize).collect();
        if let Some(left) = self.left.get_mut(start.number as usize) {
            change(left, &devices);
        }
    }

    fn job(&self, ask: &TaskDemand) -> NewJob {
        let amount = match ask.is_share() {
            true => GpuAmount::Shared {
                count: ask.n_gpus,
                share: Share::part(MilliGpu::new(u64::from(ask.part))),
            },
            false => GpuAmount::Whole(ask.n_gpus),
        };
        let taken = self.models.iter().filter(|it| ask.models >> **it & 1 == 1);
        let mut models: Vec<_> = taken.map(|it| pattern(*it)).collect();
        if ask.n_gpus == 0 || models.len() == self.models.len() {
            models.clear();
        } else if models.is_empty() {
            models.push(pattern(NO_MODEL));
        }
        let mut job = new_job(ask.n_gpus, 1);
        job.gpus = GpuRequest { amount, models, ..GpuRequest::default() };
        job.cpus = Some(MilliCpu::new(ask.cpus));
        job.memory = Some(Bytes::new(ask.memory));
        if self.may_move {
            job.life.preemptible = Some(true);
            job.life.exits = BTreeSet::from([Exit::Checkpoint]).into();
        }
        job
    }
}

fn owner() -> Owner {
    Owner { uid: 1_000, gid: 1_000, user: "all".into() }
}

fn model(number: u32) -> String {
    format!("model {number}")
}

fn pattern(number: u32) -> ModelPattern {
    ModelPattern::exactly(&model(number))
}

/// The trace and the scheduler use the same unit for parts of a device.
const _: () = assert!(WHOLE as u64 == MilliGpu::DEVICE.get());
