//! The queue order of waiting jobs: down the tree of projects the first child, then the first job.
//! Kept up to date while counters change: a change of a project's counters is reported here.

use std::collections::BTreeMap;

use crate::cycle::Rules;
use crate::entitled::Claim;
use crate::input::Amounts;
use crate::queue::Queue;
use crate::state::State;
use crate::unit::{self, JobKey};

/// The jobs that wait, in order.
#[derive(Debug)]
pub(crate) struct Turns {
    queue: Queue,
    leafs: Vec<Leaf>,
    /// Jobs that are skipped.
    pub skip: Vec<bool>,
}

/// The jobs of one project.
#[derive(Debug, Default)]
struct Leaf {
    /// The waiting jobs in order, with the amounts that each would place.
    waiting: Vec<(JobKey, Amounts)>,
    /// Number of them that were considered.
    passed: usize,
    /// Jobs that were put back.
    again: BTreeMap<JobKey, Amounts>,
}

impl Turns {
    /// Queues all jobs of the tree that pass a test.
    pub(crate) fn of(rules: Rules<'_>, state: &State<'_>, pass: impl Fn(usize) -> bool) -> Self {
        let mut turns = Self {
            queue: Queue::of(rules.index),
            leafs: Vec::new(),
            skip: vec![false; rules.index.jobs.len()],
        };
        turns.leafs.resize_with(rules.index.projects.len(), Leaf::default);
        for leaf in 0..turns.leafs.len() {
            turns.refill(rules, state, leaf, &pass);
        }
        turns
    }

    /// Reads the waiting jobs of a project again.
    pub(crate) fn refill(
        &mut self,
        rules: Rules<'_>,
        state: &State<'_>,
        leaf: usize,
        pass: &impl Fn(usize) -> bool,
    ) {
        let jobs = rules.index.jobs_of[leaf].iter().copied();
        let jobs = jobs.filter(|&job| pass(job) && unit::candidate(state, job));
        let mut waiting: Vec<_> = jobs.map(|job| JobKey::now(state, rules.settings, job)).collect();
        if waiting.is_empty() && self.leafs[leaf].waiting.is_empty() {
            return;
        }
        waiting.sort_unstable();
        waiting.truncate(rules.settings.depth.unwrap_or(usize::MAX));
        self.leafs[leaf] = Leaf {
            waiting: waiting.into_iter().map(|key| (key, request(state, key.job))).collect(),
            ..Leaf::default()
        };
        self.update(rules, state, leaf);
    }

    /// Puts exactly the considered jobs of a project back.
    pub(crate) fn restart(&mut self, rules: Rules<'_>, state: &State<'_>, leaf: usize) {
        self.leafs[leaf].passed = 0;
        self.leafs[leaf].again.clear();
        self.update(rules, state, leaf);
    }

    /// Returns the leaf that is next.
    pub(crate) fn leaf(&self) -> Option<usize> {
        self.queue.first()
    }

    /// Takes the next job out and returns it.
    pub(crate) fn pop(&mut self, rules: Rules<'_>, state: &State<'_>) -> Option<usize> {
        let leaf = self.queue.first()?;
        let job = self.take(leaf)?;
        self.update(rules, state, leaf);
        Some(job)
    }

    /// Skips the first jobs of a project with the same request, as far as they are before all jobs
    /// that were put back.
    pub(crate) fn pass(&mut self, rules: Rules<'_>, state: &State<'_>, leaf: usize) {
        let Leaf { waiting, passed, again } = &mut self.leafs[leaf];
        let Some(&(_, first)) = waiting.get(*passed) else { return };
        let until = again.first_key_value().map(|(key, _)| *key);
        *passed += 1;
        while rules.settings.shortcuts
            && let Some((key, asked)) = waiting.get(*passed)
            && *asked == first
            && until.is_none_or(|until| *key < until)
        {
            *passed += 1;
        }
        self.update(rules, state, leaf);
    }

    /// The first of a project, and whether it was put back.
    pub(crate) fn first_of(&mut self, leaf: usize) -> Option<(usize, bool)> {
        let (job, _, again) = self.leafs[leaf].first(&self.skip)?;
        Some((job, again))
    }

    /// Puts a job back, in the order of its present state.
    pub(crate) fn push(
        &mut self,
        rules: Rules<'_>,
        state: &State<'_>,
        job: usize,
        asked: Option<Amounts>,
    ) {
        let Some(leaf) = rules.index.jobs[job].project else { return };
        let asked = asked.unwrap_or_else(|| request(state, job));
        let key = JobKey::now(state, rules.settings, job);
        self.leafs[leaf].again.insert(key, asked);
        self.update(rules, state, leaf);
    }

    /// Something changed for a project.
    pub(crate) fn update(&mut self, rules: Rules<'_>, state: &State<'_>, leaf: usize) {
        let first = self.leafs[leaf].first(&self.skip);
        let claim = first.map(|(_, request, _)| Claim { request, losses: Amounts::default() });
        self.queue.update(rules.index, leaf, claim, |a, b| {
            rules.entitled.compare(state, rules.settings, a, b).is_lt()
        });
    }

    fn take(&mut self, leaf: usize) -> Option<usize> {
        let (job, _, again) = self.leafs[leaf].first(&self.skip)?;
        if again {
            self.leafs[leaf].again.pop_first();
        } else {
            self.leafs[leaf].passed += 1;
        }
        Some(job)
    }
}

impl Leaf {
    /// Returns the first job, the amounts that it would place, and whether it was put back.
    fn first(&mut self, skip: &[bool]) -> Option<(usize, Amounts, bool)> {
        while self.waiting.get(self.passed).is_some_and(|(key, _)| skip[key.job]) {
            self.passed += 1;
        }
        let waiting = self.waiting.get(self.passed);
        match (waiting, self.again.first_key_value()) {
            (Some((key, _)), Some((other, asked))) if other < key => {
                Some((other.job, *asked, true))
            }
            (Some((key, asked)), _) => Some((key.job, *asked, false)),
            (None, Some((key, asked))) => Some((key.job, *asked, true)),
            (None, None) => None,
        }
    }
}

/// The charge of the unit that a job would place next.
fn request(state: &State<'_>, job: usize) -> Amounts {
    unit::unit(state, job).map_or_else(Amounts::default, |tasks| unit::charge(state, &tasks))
}
