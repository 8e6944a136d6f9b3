//! How full a cluster gets: tasks come one after the other until more was asked than there is, and
//! stay; or come and go all the time. Whoever finds no room when it comes is turned away.

use std::collections::BTreeSet;

use fastrand::Rng;
pub use gpool_sched::packing::Mix;
use gpool_sched::packing::{Ask, Packer, Rule};

use crate::openb::Cluster;

/// Tasks and where they go.
#[derive(Debug, Clone)]
pub struct Experiment<'a> {
    /// The cluster, empty at first.
    pub cluster: &'a Cluster,
    /// The tasks of a trace.
    pub tasks: &'a [Ask],
    /// What is known of tasks that come.
    pub mix: &'a Mix,
    /// By what nodes are chosen.
    pub rule: Rule,
    /// Which tasks come.
    pub seed: u64,
}

/// How full it was when so much had been asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filled {
    /// Asked of devices, of all that there are.
    pub arrived: f64,
    /// Given out, of all that there are.
    pub allocated: f64,
    /// Idle, and of no use to the next task; of all that there are.
    pub fragment: f64,
}

/// What is measured while tasks come and go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Churned {
    /// Given out, of all that there are; the mean over time.
    pub allocated: f64,
    /// Of what was asked of devices, which part was turned away.
    pub rejected: f64,
    /// The same of tasks of eight devices.
    pub rejected_of_eight: f64,
    /// How many came.
    pub n_arrived: u64,
    /// How many tasks moved.
    pub n_moves: u64,
}

impl Experiment<'_> {
    /// Fills the cluster; how full it was each time that so much had been asked, of all devices;
    /// nothing if there are none, or none are asked for.
    /// The tasks of the trace come first, in any order, and then any of them again and again.
    #[must_use]
    pub fn fill(&self, at: &[f64]) -> Vec<Filled> {
        let capacity = self.cluster.gpus();
        // So much would never have been asked.
        if self.tasks.iter().all(|ask| ask.gpus() == 0) || capacity == 0 {
            return Vec::new();
        }
        let mut rng = Rng::with_seed(self.seed);
        let mut packer = Packer::new(&self.cluster.nodes, self.mix, self.rule, self.seed);
        let mut first: Vec<&Ask> = self.tasks.iter().collect();
        rng.shuffle(&mut first);
        let again = std::iter::from_fn(|| rng.choice(self.tasks));
        let (mut arrived, mut filled) = (0, Vec::new());
        for (no, ask) in (0..).zip(first.into_iter().chain(again)) {
            packer.place(no, ask);
            arrived += ask.gpus();
            while at.get(filled.len()).is_some_and(|at| arrived as f64 >= at * capacity as f64) {
                let part = |amount: u64| amount as f64 / capacity as f64;
                filled.push(Filled {
                    arrived: at[filled.len()],
                    allocated: part(capacity - packer.idle()),
                    fragment: part(packer.fragment()),
                });
            }
            if filled.len() == at.len() {
                break;
            }
        }
        filled
    }

    /// Lets tasks come by chance, so many that `load` of all devices would be taken if all found
    /// room, and stay for one unit of time in the mean; six units long, of which the first two and
    /// a half are not measured. For a task that finds no room so many others may move.
    #[must_use]
    pub fn churn(&self, load: f64, n_moves_of_one: usize) -> Churned {
        let capacity = self.cluster.gpus() as f64;
        let mut rng = Rng::with_seed(self.seed);
        let mut packer = Packer::new(&self.cluster.nodes, self.mix, self.rule, self.seed);
        let mean = self.tasks.iter().map(Ask::gpus).sum::<u64>() as f64 / self.tasks.len() as f64;
        let per_unit = load * capacity / mean;
        let after = |rng: &mut Rng, mean: f64| -mean * (1.0 - rng.f64()).ln();
        let (mut now, mut n) = (0.0, 0_u64);
        // By when they end, as bits, which for times are in the same order.
        let mut ends = BTreeSet::<(u64, u64)>::new();
        let mut sums = Sums::default();
        loop {
            let next = now + after(&mut rng, 1.0 / per_unit);
            while let Some((end, task)) = ends.first() {
                let (end, task) = (f64::from_bits(*end), *task);
                if end > next.min(UNITS) {
                    break;
                }
                sums.pass(&mut now, end, capacity - packer.idle() as f64);
                packer.remove(task);
                ends.pop_first();
            }
            sums.pass(&mut now, next.min(UNITS), capacity - packer.idle() as f64);
            if next > UNITS {
                break;
            }
            let Some(ask) = rng.choice(self.tasks) else { break };
            n += 1;
            let stays = after(&mut rng, 1.0);
            let moves = packer.place_or_move(n, ask, n_moves_of_one);
            if moves.is_some() {
                ends.insert(((now + stays).to_bits(), n));
            }
            if now >= WARM {
                sums.count(ask, moves.as_deref().map(<[_]>::len));
            }
        }
        sums.result(capacity)
    }
}

/// How long tasks come and go.
const UNITS: f64 = 6.0;
/// From when on it is measured.
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

    fn count(&mut self, ask: &Ask, moves: Option<usize>) {
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
