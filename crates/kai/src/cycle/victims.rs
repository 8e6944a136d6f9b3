//! The possible victims, worst first: the worst project by its share, its worst job, and of that
//! job one task above its minimum, or all of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::counters::SetNow;
use crate::cycle::Rules;
use crate::entitled::Claim;
use crate::input::Amounts;
use crate::queue::Queue;
use crate::state::State;
use crate::unit::{self, JobKey};

/// Tasks that are evicted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub job: usize,
    pub tasks: Vec<usize>,
}

/// The running jobs that may be evicted, by project, best first.
#[derive(Debug)]
pub(crate) struct Pool {
    leafs: Vec<Vec<JobKey>>,
}

impl Pool {
    pub(crate) fn of(rules: Rules<'_>, state: &State<'_>) -> Self {
        let mut pool = Self { leafs: vec![Vec::new(); rules.index.projects.len()] };
        for leaf in 0..pool.leafs.len() {
            pool.refill(rules, state, leaf);
        }
        pool
    }

    /// Reads the running jobs of a project again.
    pub(crate) fn refill(&mut self, rules: Rules<'_>, state: &State<'_>, leaf: usize) {
        let jobs = rules.index.jobs_of[leaf].iter().copied().filter(|&job| {
            let row = &rules.index.jobs[job];
            row.preemptible && row.sets.clone().any(|set| state.sets[set].holding > 0)
        });
        let mut keys: Vec<JobKey> =
            jobs.map(|job| JobKey::now(state, rules.settings, job)).collect();
        keys.sort_unstable();
        self.leafs[leaf] = keys;
    }

    /// Returns the projects with possible victims.
    pub(crate) fn projects(&self) -> impl Iterator<Item = usize> + '_ {
        let leafs = self.leafs.iter().enumerate();
        leafs.filter(|(_, keys)| !keys.is_empty()).map(|(leaf, _)| leaf)
    }

    /// The jobs of one project.
    fn of_leaf(&self, leaf: usize) -> &[JobKey] {
        &self.leafs[leaf]
    }
}

/// Victims one after the other.
pub(crate) struct Victims<'p, F> {
    rules: Rules<'p>,
    pool: &'p Pool,
    allowed: F,
    queue: Queue,
    leafs: BTreeMap<usize, Leaf>,
    views: BTreeMap<usize, View>,
}

/// The position in a project.
#[derive(Debug)]
struct Leaf {
    /// Number of jobs of the pool that are left.
    left: usize,
    /// Jobs with remaining tasks.
    rest: BTreeSet<JobKey>,
    /// The allocations of the victims named so far.
    lost: Amounts,
}

/// The remaining tasks of a partly named job, by set.
#[derive(Debug, Clone)]
struct View {
    sets: Vec<(usize, Vec<usize>)>,
}

impl<'p, F: Fn(usize) -> bool> Victims<'p, F> {
    /// From the allowed jobs of the pool, in these projects.
    pub(crate) fn of(
        rules: Rules<'p>,
        state: &State<'_>,
        pool: &'p Pool,
        leafs: impl Iterator<Item = usize>,
        allowed: F,
    ) -> Self {
        let mut victims = Self {
            rules,
            pool,
            allowed,
            queue: Queue::of(rules.index),
            leafs: BTreeMap::new(),
            views: BTreeMap::new(),
        };
        for leaf in leafs {
            let left = pool.of_leaf(leaf).len();
            if left > 0 {
                let rest = BTreeSet::new();
                victims.leafs.insert(leaf, Leaf { left, rest, lost: Amounts::default() });
                victims.update(state, leaf);
            }
        }
        victims
    }

    /// Returns the next possible victim that is not in `given`. For one in `given` the piece is
    /// empty, and the rest of its job gets another turn.
    pub(crate) fn next(&mut self, state: &State<'_>, given: &BTreeSet<usize>) -> Option<Piece> {
        let leaf = self.queue.first()?;
        let (job, rest) = self.worst(leaf)?;
        let lost = self.holding(state, job);
        let place = self.leafs.get_mut(&leaf)?;
        place.lost += lost;
        if rest {
            place.rest.pop_last();
        } else {
            place.left -= 1;
        }
        let view = self.views.entry(job).or_insert_with(|| View::of(state, job));
        let before = view.clone();
        let mut tasks = view.take(state);
        if tasks.iter().any(|task| given.contains(task)) {
            *view = before.without(given);
            tasks.clear();
        }
        if view.any() {
            let view = &self.views[&job];
            let before = |set: usize| state.sets[set].holding;
            let key = JobKey::of(state, self.rules.settings, job, |set| {
                state.sets[set].active() - (before(set) - view.count(set))
            });
            self.leafs.get_mut(&leaf)?.rest.insert(key);
        }
        self.update(state, leaf);
        Some(Piece { job, tasks })
    }

    /// The worst job of a project, and whether a part of it is a victim.
    fn worst(&mut self, leaf: usize) -> Option<(usize, bool)> {
        let place = self.leafs.get_mut(&leaf)?;
        let pool = self.pool.of_leaf(leaf);
        while place.left > 0 && !(self.allowed)(pool[place.left - 1].job) {
            place.left -= 1;
        }
        let from_pool = place.left.checked_sub(1).map(|last| pool[last]);
        match (from_pool, place.rest.last()) {
            (Some(key), Some(rest)) if *rest > key => Some((rest.job, true)),
            (Some(key), _) => Some((key.job, false)),
            (None, Some(rest)) => Some((rest.job, true)),
            (None, None) => None,
        }
    }

    /// Returns the allocations of the rest of a job.
    fn holding(&self, state: &State<'_>, job: usize) -> Amounts {
        let sum = |tasks: &mut dyn Iterator<Item = usize>| {
            tasks.fold(Amounts::default(), |sum, task| sum + state.charge(task))
        };
        match self.views.get(&job) {
            Some(view) => sum(&mut view.sets.iter().flat_map(|(_, tasks)| tasks.iter().copied())),
            None => {
                let tasks = self.rules.index.jobs[job].tasks.clone();
                sum(&mut tasks.filter(|&task| state.tasks[task].state.holds()))
            }
        }
    }

    fn update(&mut self, state: &State<'_>, leaf: usize) {
        let claim = self.worst(leaf).map(|(job, _)| {
            let lost = self.leafs.get(&leaf).map_or_else(Amounts::default, |it| it.lost);
            Claim { request: Amounts::default(), losses: lost + self.holding(state, job) }
        });
        let rules = self.rules;
        self.queue.update(rules.index, leaf, claim, |a, b| {
            rules.entitled.compare(state, rules.settings, a, b).is_gt()
        });
    }
}

impl View {
    fn of(state: &State<'_>, job: usize) -> Self {
        let sets = state.index.jobs[job].sets.clone();
        let holding = |set: usize| {
            let tasks = state.index.sets[set].tasks.iter().copied();
            tasks.filter(|&task| state.tasks[task].state.holds()).collect()
        };
        Self { sets: sets.map(|set| (set, holding(set))).collect() }
    }

    /// The same without some of the tasks.
    fn without(mut self, given: &BTreeSet<usize>) -> Self {
        for (_, tasks) in &mut self.sets {
            tasks.retain(|task| !given.contains(task));
        }
        self
    }

    /// Whether any task is left.
    fn any(&self) -> bool {
        self.sets.iter().any(|(_, tasks)| !tasks.is_empty())
    }

    /// One task beyond the gang, or all tasks that are left.
    fn take(&mut self, state: &State<'_>) -> Vec<usize> {
        let held = |tasks: &Vec<usize>| i64::try_from(tasks.len()).unwrap_or(i64::MAX);
        let now = |tasks: &Vec<usize>| SetNow { holding: held(tasks), ..SetNow::default() };
        let above = self
            .sets
            .iter()
            .enumerate()
            .filter(|(_, (set, tasks))| held(tasks) > state.index.sets[*set].min)
            .max_by(|(_, (a, in_a)), (_, (b, in_b))| {
                unit::ratio(state, (*a, now(in_a)), (*b, now(in_b)), |it| it.holding).then(b.cmp(a))
            })
            .map(|(row, _)| row);
        match above {
            Some(row) => self.sets[row].1.pop().into_iter().collect(),
            None => self.sets.iter_mut().flat_map(|(_, tasks)| std::mem::take(tasks)).collect(),
        }
    }

    fn count(&self, set: usize) -> i64 {
        let tasks = self.sets.iter().find(|(row, _)| *row == set).map(|(_, tasks)| tasks.len());
        tasks.and_then(|it| i64::try_from(it).ok()).unwrap_or(0)
    }
}
