//! Tasks that are placed by the scheduler that runs jobs, on the nodes of an experiment.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::TaskIs;
use gpool_model::job::Owner;
use gpool_model::pattern::ModelPattern;
use gpool_model::{
    Bytes, Command, GpuAmount, GpuRequest, JobId, MilliCpu, MilliGpu, Millis, NewJob, Policy,
    Resources, Share, Timestamp,
};
use gpool_sched::packing::{Ask, Left, Mix, WHOLE};

use crate::cluster::{self, Cluster};
use crate::coming::{EPOCH, new_job};
use crate::fleet::{Came, Fleet, Start, Told, end, says};
use crate::queue::PlayError;

/// Between two things that happen.
const STEP: Millis = Millis::from_secs(1);

/// The number of no model: those are below 64.
const NO_MODEL: u32 = u32::MAX;

/// A cluster as the scheduler has it.
pub(crate) struct Live<'a> {
    fleet: Fleet,
    now: Timestamp,
    mix: &'a Mix,
    /// Numbers of the models that there are.
    models: BTreeSet<u32>,
    /// What is left of each node, its devices by their index.
    left: Vec<Left>,
    tasks: BTreeMap<u64, Running>,
}

struct Running {
    ask: Ask,
    start: Start,
    started_at: Timestamp,
}

impl<'a> Live<'a> {
    /// An empty cluster: of each node, in the order of names, what there is of it.
    pub fn new(nodes: &[Left], mix: &'a Mix, policy: Policy) -> Self {
        let node = |(n, left): (u32, &Left)| {
            let mut node = cluster::node(n, u32::try_from(left.free.len()).unwrap_or(u32::MAX));
            let room = Resources::none().with_cpus(MilliCpu::new(left.cpus));
            node.capacity = room.with_memory(Bytes::new(left.memory)).with_tasks(100_000);
            node.devices.iter_mut().for_each(|device| device.model = model(left.model));
            (node.name.clone(), node)
        };
        Self {
            fleet: Fleet::start(Cluster::of_nodes((0..).zip(nodes).map(node).collect(), policy)),
            now: EPOCH,
            mix,
            models: nodes.iter().map(|node| node.model).collect(),
            left: nodes.to_vec(),
            tasks: BTreeMap::new(),
        }
    }

    /// Thousandths of devices of which nothing is taken.
    pub fn idle(&self) -> u64 {
        self.left.iter().map(Left::gpus).sum()
    }

    /// Expected thousandths of devices that are idle and of no use to the next task.
    pub fn fragment(&self) -> u64 {
        let of = |left: &Left| {
            let mut left = left.clone();
            left.free.sort_unstable();
            self.mix.fragment(&left)
        };
        self.left.iter().map(of).sum::<u64>() / 1_000_000
    }

    /// Submits a task as a job; whether it starts at once. If not, it is cancelled.
    pub fn place(&mut self, task: u64, ask: &Ask) -> Result<bool, PlayError> {
        let submitted = self.fleet.submission(owner(), self.job(ask));
        let came = self.step(vec![submitted])?;
        let Some(Ok(Some(number))) = came.answers.into_iter().next() else { return Ok(false) };
        let Some(start) = came.told.into_iter().find_map(|told| match told {
            Told::Run(start) => Some(start),
            Told::Stop(_) => None,
        }) else {
            let jobs = vec![JobId::single(number.0)];
            let cancelled = self.fleet.request(owner(), Command::Cancel { jobs });
            self.step(vec![cancelled])?;
            return Ok(false);
        };
        let started_at = self.now;
        let is = TaskIs::Running { pid: 1, started_at };
        let runs = says(&start.node, start.task, start.generation, is);
        self.change(&start, |left, devices| {
            left.cpus = left.cpus.saturating_sub(ask.cpus);
            left.memory = left.memory.saturating_sub(ask.memory);
            devices.iter().for_each(|at| left.free[*at] = left.free[*at].saturating_sub(ask.part));
        });
        self.tasks.insert(task, Running { ask: *ask, start, started_at });
        self.step(vec![runs])?;
        Ok(true)
    }

    /// A task ends.
    pub fn remove(&mut self, task: u64) -> Result<(), PlayError> {
        let Some(Running { ask, start, started_at }) = self.tasks.remove(&task) else {
            return Ok(());
        };
        self.change(&start, |left, devices| {
            left.cpus += ask.cpus;
            left.memory += ask.memory;
            devices.iter().for_each(|at| left.free[*at] += ask.part);
        });
        let is = end(self.now, started_at, false);
        self.step(vec![says(&start.node, start.task, start.generation, is)]).map(drop)
    }

    fn step(&mut self, events: Vec<gpool_model::Event>) -> Result<Came, PlayError> {
        self.now = self.now.after(STEP);
        let came = self.fleet.step(self.now, events);
        match came.violations.is_empty() {
            true => Ok(came),
            false => Err(PlayError::Violation(came.violations)),
        }
    }

    fn change(&mut self, start: &Start, change: impl FnOnce(&mut Left, &[usize])) {
        let devices: Vec<usize> = start.devices.iter().map(|(_, ix)| *ix as usize).collect();
        if let Some(left) = self.left.get_mut(start.number as usize) {
            change(left, &devices);
        }
    }

    fn job(&self, ask: &Ask) -> NewJob {
        let amount = match ask.is_share() {
            true => GpuAmount::Shared {
                count: ask.n_gpus,
                share: Share::Part(MilliGpu::new(u64::from(ask.part))),
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
        NewJob {
            gpus: GpuRequest { amount, models, least_memory: None },
            cpus: Some(MilliCpu::new(ask.cpus)),
            memory: Some(Bytes::new(ask.memory)),
            ..new_job(ask.n_gpus, 1)
        }
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

/// Thousandths of a whole device are counted alike here and by the scheduler.
const _: () = assert!(WHOLE as u64 == MilliGpu::DEVICE.get());
