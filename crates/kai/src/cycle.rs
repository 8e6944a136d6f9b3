//! A cycle: the stages one after the other on the same counters.

mod allocate;
mod consolidate;
pub(crate) mod place;
mod place_unit;
mod preempt;
mod reclaim;
mod runtime;
mod solver;
mod stale;
mod turns;
pub(crate) mod victims;

use crate::admit::Passed;
use crate::cycle::place::Lacks;
use crate::cycle::turns::Turns;
use crate::entitled::Entitlements;
use crate::index::Index;
use crate::quotas::{Barred, Quotas};
use crate::settings::{Settings, Stage};
use crate::state::State;

/// The input of a cycle, which does not change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub index: &'a Index,
    pub entitled: &'a Entitlements,
    pub settings: &'a Settings,
}

/// Why a stage did nothing for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Its project takes no jobs.
    NoProject,
    /// Fewer tasks wait than its gang lacks.
    TooFew,
    /// It would exceed a quota.
    Passed(Passed),
    /// A task fits nowhere.
    NoRoom { task: usize, lacks: Lacks },
    /// The rule for reclaiming bars it.
    Barred(Barred),
    /// All free capacity together is too little.
    NotEnough { asked: i64, free: i64 },
    /// Another job with no larger request found no victims.
    AsAnother { job: usize },
    /// No set of possible victims makes room.
    NobodyGivesWay,
}

/// The state of a cycle.
pub(crate) struct Cycle<'a> {
    pub rules: Rules<'a>,
    pub state: State<'a>,
    pub quotas: Quotas,
    /// Whether a running job claims more capacity, which becomes free if the job is evicted.
    pub promised_more: bool,
    /// For each job and stage without a result, the obstacle, in order.
    pub obstacles: Vec<(usize, Stage, Obstacle)>,
    /// For each evicted or moved task, the stage and the beneficiary.
    pub ended_for: Vec<Option<(Stage, usize)>>,
}

impl Cycle<'_> {
    /// Runs the stages.
    pub(crate) fn run(&mut self) {
        for stage in &self.rules.settings.stages {
            match stage {
                Stage::Allocate => allocate::run(self),
                Stage::Consolidate => consolidate::run(self),
                Stage::Reclaim => reclaim::run(self),
                Stage::Preempt => preempt::run(self),
                Stage::StaleGangs => stale::run(self),
            }
        }
    }

    /// The jobs that wait, in order.
    pub(crate) fn turns(&self, pass: impl Fn(usize) -> bool) -> Turns {
        Turns::of(self.rules, &self.state, pass)
    }

    /// Keeps the changes since the mark, for this job. Returns the projects with changes.
    pub(crate) fn commit(&mut self, mark: usize, stage: Stage, job: usize) -> Vec<usize> {
        let changed = self.state.changed(mark);
        self.state.commit(mark);
        self.quotas.changed();
        let mut projects = Vec::new();
        for task in changed {
            let owner = self.rules.index.tasks[task].job;
            let now = self.state.tasks[task];
            if owner != job && now.from.is_some() {
                self.ended_for[task] = Some((stage, job));
            }
            if owner != job && now.state.waits() {
                self.inherit(owner, job);
            }
            self.promised_more |= self.state.promised_more(owner);
            projects.extend(self.rules.index.jobs[owner].project);
        }
        projects.sort_unstable();
        projects.dedup();
        projects
    }

    /// Passes the victims of a job that lost its claims to the job that replaced it.
    fn inherit(&mut self, from: usize, to: usize) {
        let row = &self.rules.index.jobs[from];
        if row.sets.clone().all(|set| self.state.sets[set].claiming == 0) {
            for (_, job) in self.ended_for.iter_mut().flatten().filter(|(_, job)| *job == from) {
                *job = to;
            }
        }
    }

    /// Notes why a stage did nothing for a job.
    pub(crate) fn note(&mut self, job: usize, stage: Stage, obstacle: Obstacle) {
        self.obstacles.push((job, stage, obstacle));
    }
}
