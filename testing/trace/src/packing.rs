//! Packing experiments. Tasks come until they have asked for more than the whole cluster, and stay;
//! or they come and go. A task that does not fit when it comes is rejected.

use std::collections::BTreeSet;

use fastrand::Rng;
pub use gpool_sched::fragmentation::{Mix, TaskDemand};

use crate::openb::Cluster;
use crate::packer::Packer;
use crate::packing_live::Live;
use crate::packing_policy::By;
use crate::queue::PlayError;

/// The setup of an experiment.
#[derive(Debug, Clone)]
pub struct Experiment<'a> {
    /// The cluster, empty at first.
    pub cluster: &'a Cluster,
    /// The tasks of a trace.
    pub tasks: &'a [TaskDemand],
    /// The expected mix of tasks.
    pub mix: &'a Mix,
    /// How nodes are chosen.
    pub by: &'a By,
    /// Selects the tasks that come.
    pub seed: u64,
}

/// The state of the cluster at one amount of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filled {
    /// The requested part of all devices.
    pub arrived: f64,
    /// The allocated part of all devices.
    pub allocated: f64,
    /// The part of all devices that is idle and of no use to the next task.
    pub fragment: f64,
}

/// The measurements while tasks come and go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Churned {
    /// The allocated part of all devices, as a mean over time.
    pub allocated: f64,
    /// The rejected part of the requested devices.
    pub rejected: f64,
    /// The same for tasks of eight devices.
    pub rejected_of_eight: f64,
    /// The number of tasks that came.
    pub n_arrived: u64,
    /// The number of moves.
    pub n_moves: u64,
}

impl Experiment<'_> {
    /// Fills the cluster and measures it at each requested part of all devices in `at`. Returns
    /// nothing if there are no devices, or no requests for them. The tasks of the trace come first,
    /// in random order, and then random tasks of it again.
    ///
    /// # Errors
    /// If the scheduler breaks an invariant.
    pub fn fill(&self, at: &[f64]) -> Result<Vec<Filled>, PlayError> {
        let capacity = self.cluster.gpus();
        // These parts would never be reached.
        if self.tasks.iter().all(|ask| ask.gpus() == 0) || capacity == 0 {
            return Ok(Vec::new());
        }
        let mut rng = Rng::with_seed(self.seed);
        let mut placer = self.placer(false);
        let mut first: Vec<&TaskDemand> = self.tasks.iter().collect();
        rng.shuffle(&mut first);
        let again = std::iter::from_fn(|| rng.choice(self.tasks));
        let (mut arrived, mut filled) = (0, Vec::new());
        for (no, ask) in (0..).zip(first.into_iter().chain(again)) {
            placer.place(no, ask)?;
            arrived += ask.gpus();
            while at.get(filled.len()).is_some_and(|at| arrived as f64 >= at * capacity as f64) {
                let part = |amount: u64| amount as f64 / capacity as f64;
                filled.push(Filled {
                    arrived: at[filled.len()],
                    allocated: part(capacity - placer.idle()),
                    fragment: part(placer.fragment()),
                });
            }
            if filled.len() == at.len() {
                break;
            }
        }
        Ok(filled)
    }

    /// Lets tasks come at random and stay for one unit of time on average, such that `load` of all
    /// devices would be in use if every task fitted. Lasts six units; the first two and a half are
    /// not measured. For a task that does not fit, `n_moves_of_one` others may move.
    ///
    /// # Errors
    /// If the scheduler breaks an invariant.
    pub fn churn(&self, load: f64, n_moves_of_one: usize) -> Result<Churned, PlayError> {
        let capacity = self.cluster.gpus() as f64;
        let mut rng = Rng::with_seed(self.seed);
        let mut placer = self.placer(n_moves_of_one > 0);
        let mean =
            self.tasks.iter().map(TaskDemand::gpus).sum::<u64>() as f64 / self.tasks.len() as f64;
        let per_unit = load * capacity / mean;
        let after = |rng: &mut Rng, mean: f64| -mean * (1.0 - rng.f64()).ln();
        let (mut now, mut n) = (0.0, 0_u64);
        // The ends of tasks as bits, which have the same order as the times.
        let mut ends = BTreeSet::<(u64, u64)>::new();
        let mut sums = Sums::default();
        loop {
            let next = now + after(&mut rng, 1.0 / per_unit);
            while let Some((end, task)) = ends.first() {
                let (end, task) = (f64::from_bits(*end), *task);
                if end > next.min(UNITS) {
                    break;
                }
                sums.pass(&mut now, end, capacity - placer.idle() as f64);
                placer.remove(task)?;
                ends.pop_first();
            }
            sums.pass(&mut now, next.min(UNITS), capacity - placer.idle() as f64);
            if next > UNITS {
                break;
            }
            let Some(ask) = rng.choice(self.tasks) else { break };
            n += 1;
            let stays = after(&mut rng, 1.0);
            let displaced = placer.displaced();
            let n_moves = placer.place_or_move(n, ask, n_moves_of_one)?;
            if n_moves.is_some() {
                ends.insert(((now + stays).to_bits(), n));
            }
            if now >= WARM {
                sums.count(ask, n_moves);
                sums.rejected += placer.displaced().saturating_sub(displaced);
            }
        }
        Ok(sums.result(capacity))
    }

    fn placer(&self, may_move: bool) -> Placer<'_> {
        let nodes = &self.cluster.nodes;
        match self.by {
            By::Rule(rule) => {
                Placer::Rule(Box::new(Packer::new(nodes, self.mix, *rule, self.seed)))
            }
            By::Preset(policy) => {
                Placer::Live(Box::new(Live::new(nodes, self.mix, (**policy).clone(), may_move)))
            }
        }
    }
}

/// Places the tasks.
enum Placer<'a> {
    Rule(Box<Packer>),
    Live(Box<Live<'a>>),
}

impl Placer<'_> {
    fn idle(&self) -> u64 {
        match self {
            Self::Rule(packer) => packer.idle(),
            Self::Live(live) => live.idle(),
        }
    }

    fn fragment(&self) -> u64 {
        match self {
            Self::Rule(packer) => packer.fragment(),
            Self::Live(live) => live.fragment(),
        }
    }

    fn place(&mut self, task: u64, ask: &TaskDemand) -> Result<bool, PlayError> {
        match self {
            Self::Rule(packer) => Ok(packer.place(task, ask).is_some()),
            Self::Live(live) => live.place(task, ask, 0),
        }
    }

    /// Returns the requests of moved tasks that have found no other place.
    fn displaced(&self) -> u64 {
        match self {
            Self::Rule(_) => 0,
            Self::Live(live) => live.displaced(),
        }
    }

    /// Returns how many tasks moved so that it fits; `None` if it does not.
    fn place_or_move(
        &mut self,
        task: u64,
        ask: &TaskDemand,
        n_moves: usize,
    ) -> Result<Option<usize>, PlayError> {
        match self {
            Self::Rule(packer) => {
                let moves = packer.place_or_move(task, ask, n_moves);
                Ok(moves.map(|moves| moves.len()))
            }
            Self::Live(live) => {
                let before = live.n_moves();
                let starts = live.place(task, ask, n_moves)?;
                let n_moves = usize::try_from(live.n_moves() - before).unwrap_or(usize::MAX);
                Ok(starts.then_some(n_moves))
            }
        }
    }

    fn remove(&mut self, task: u64) -> Result<(), PlayError> {
        match self {
            Self::Rule(packer) => {
                packer.remove(task);
                Ok(())
            }
            Self::Live(live) => live.remove(task),
        }
    }
}

/// The length of an experiment.
const UNITS: f64 = 6.0;
/// The begin of the measurement.
const WARM: f64 = 2.5;

#[derive(Default)]
struct Sums {
    area: f64,
    asked: u64,
    rejected: u64,
    asked_of_eight: u64,
    rejected_of_eight: u64,
    n_arrived: u64,
    n_moves: u64,
}

impl Sums {
    fn pass(&mut self, now: &mut f64, until: f64, allocated: f64) {
        self.area += (until - now.max(WARM)).max(0.0) * allocated;
        *now = until;
    }

    fn count(&mut self, ask: &TaskDemand, moves: Option<usize>) {
        let is_of_eight = u64::from(ask.n_gpus == 8);
        let is_rejected = u64::from(moves.is_none());
        self.n_arrived += 1;
        self.asked += ask.gpus();
        self.rejected += is_rejected * ask.gpus();
        self.asked_of_eight += is_of_eight;
        self.rejected_of_eight += is_rejected * is_of_eight;
        self.n_moves += moves.unwrap_or(0) as u64;
    }

    fn result(&self, capacity: f64) -> Churned {
        let part = |some: u64, all: u64| some as f64 / all.max(1) as f64;
        Churned {
            allocated: self.area / (UNITS - WARM) / capacity,
            rejected: part(self.rejected, self.asked),
            rejected_of_eight: part(self.rejected_of_eight, self.asked_of_eight),
            n_arrived: self.n_arrived,
            n_moves: self.n_moves,
        }
    }
}
