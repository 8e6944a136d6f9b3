//! What a cycle decided, in the words of its input: rows are rows of the input's lists.

use std::collections::BTreeMap;

use crate::counters::{At, TaskStatus};
use crate::cycle::place::Lacks;
use crate::cycle::{Cycle, Obstacle};
use crate::input::{Amounts, Input, Kind, TaskState};
use crate::quotas::Barred;
use crate::settings::Stage;

/// What a cycle decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What changes, by name of job, then in the order of its tasks.
    pub decisions: Vec<Decision>,
    /// Where every task is afterwards, by job and task.
    pub tasks: Vec<Vec<TaskAfter>>,
    /// Why each considered job waits: by stage, in queue order.
    pub waits: Vec<Wait>,
    /// Allocations and shares of projects afterwards.
    pub projects: Vec<ProjectAfter>,
    /// Whole devices that are free, or will be when all have left, by node.
    pub nodes: Vec<NodeAfter>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The job.
    pub job: usize,
    /// Its task.
    pub task: usize,
    /// What happens to it.
    pub what: Change,
}

/// What happens to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It starts.
    Bind(PlacementAfter),
    /// It is to start there when others have left.
    Claim(PlacementAfter),
    /// It leaves, in a stage, for a job.
    Evict {
        /// The stage.
        stage: Stage,
        /// The beneficiary; the job itself if it lost a part of its minimum.
        for_job: usize,
    },
    /// It leaves and is to start there when others have left.
    Move {
        /// Where to.
        to: PlacementAfter,
        /// The stage.
        stage: Stage,
        /// The beneficiary.
        for_job: usize,
    },
}

/// A task afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAfter {
    /// Its state.
    pub state: TaskState,
    /// Where it is or is to be.
    pub placement: Option<PlacementAfter>,
    /// Where it is leaving.
    pub leaves: Option<PlacementAfter>,
    /// What its project is charged for it.
    pub charged: Amounts,
}

/// Where a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementAfter {
    /// The node.
    pub node: String,
    /// Which of its lists of devices.
    pub devices: usize,
    /// The devices that it shares.
    pub shared: Vec<SharedAfter>,
}

/// A device that is shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedAfter {
    /// One that was shared before.
    Named(String),
    /// One that was, or will be, free as a whole; the same number is the same device.
    Fresh(usize),
}

/// Why a stage did nothing for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The job.
    pub job: usize,
    /// The stage.
    pub stage: Stage,
    /// Why.
    pub why: Why,
}

/// Why a stage did nothing for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Its project does not exist, or has others below it, or is in no tree.
    NoProject,
    /// Fewer of its tasks wait than are lacking of what must run at once.
    TooFewTasks,
    /// A project would pass its limit.
    OverLimit(Line),
    /// The project's non-preemptible allocations would exceed its guarantee.
    OverGuarantee(Line),
    /// The project would exceed its share, so it may not reclaim.
    OverShare(Line),
    /// A task fits nowhere.
    NoRoom {
        /// The task.
        task: usize,
        /// What places lack, by how many.
        lacks: Lacks,
    },
    /// Even all that is free together is too little to move others for it.
    NotEnoughFree {
        /// Thousandths of GPUs that it asks for.
        asked: i64,
        /// Thousandths of GPUs that are or will be free.
        free: i64,
    },
    /// All projects of possible victims are within their shares.
    Own {
        /// The project of the last one considered.
        project: usize,
    },
    /// A project would be closer to its share than the one that it takes from.
    Saturated {
        /// The project that would take, or one above it.
        project: usize,
        /// The one that would lose.
        other: usize,
        /// Of what.
        kind: Kind,
    },
    /// Another job with no larger request found no victims.
    AsAnother {
        /// That job.
        job: usize,
    },
    /// No set of possible victims makes room.
    NobodyGivesWay,
}

/// A line that would be passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The project.
    pub project: usize,
    /// Of what.
    pub kind: Kind,
    /// What counts already.
    pub held: i64,
    /// What would be added.
    pub asked: i64,
    /// The line.
    pub bound: i64,
}

/// A project afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectAfter {
    /// Its fair share in this cycle.
    pub fair: Amounts,
    /// Its allocations, with claims.
    pub allocated: Amounts,
    /// The non-preemptible part of it.
    pub fixed: Amounts,
}

/// A node afterwards, in whole devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeAfter {
    /// Free.
    pub idle: i64,
    /// Soon free, less the claims; negative where claims are on free capacity.
    pub releasing: i64,
}

impl Outcome {
    pub(crate) fn of(cycle: &Cycle<'_>, input: &Input, names: &[Option<String>]) -> Self {
        let index = cycle.rules.index;
        let reader = Reader { cycle, input, names: named(cycle, names) };
        let mut outcome = Self {
            tasks: input.jobs.iter().map(|job| untouched(&job.tasks)).collect(),
            ..Self::default()
        };
        for job in &index.jobs {
            for row in job.tasks.clone() {
                let task = index.tasks[row].given;
                outcome.tasks[job.given][task] = reader.after(row);
                let before = input.jobs[job.given].tasks[task].state;
                if let Some(what) = reader.change(row, before) {
                    outcome.decisions.push(Decision { job: job.given, task, what });
                }
            }
        }
        outcome.waits = cycle
            .obstacles
            .iter()
            .map(|(job, stage, obstacle)| Wait {
                job: index.jobs[*job].given,
                stage: *stage,
                why: reader.why(*job, obstacle),
            })
            .collect();
        let nothing = || ProjectAfter {
            fair: Amounts::default(),
            allocated: Amounts::default(),
            fixed: Amounts::default(),
        };
        outcome.projects.resize_with(input.projects.len(), nothing);
        for (row, project) in index.projects.iter().enumerate() {
            outcome.projects[project.given] = ProjectAfter {
                fair: cycle.rules.entitled.projects[row].fair,
                allocated: cycle.state.allocated[row],
                fixed: cycle.state.fixed[row],
            };
        }
        outcome.nodes.resize(input.nodes.len(), NodeAfter::default());
        for (row, place) in index.places.iter().enumerate() {
            let node = &mut outcome.nodes[index.nodes[place.node].given];
            node.idle += cycle.state.places[row].whole.idle;
            node.releasing += cycle.state.places[row].whole.leaving;
        }
        outcome
    }
}

/// Tasks as they are in the input.
fn untouched(tasks: &[super::input::Task]) -> Vec<TaskAfter> {
    let after =
        |state| TaskAfter { state, placement: None, leaves: None, charged: Amounts::default() };
    tasks.iter().map(|task| after(task.state)).collect()
}

/// Returns the names of shared devices: the old ones, or numbers in the order of their tasks.
fn named(cycle: &Cycle<'_>, names: &[Option<String>]) -> BTreeMap<usize, SharedAfter> {
    let mut named = BTreeMap::new();
    let mut fresh = 0;
    for now in &cycle.state.tasks {
        for at in [now.at, now.from].into_iter().flatten() {
            for &row in &cycle.state.lots[at.lot.0..at.lot.1] {
                named.entry(row).or_insert_with(|| match names.get(row).and_then(Option::as_ref) {
                    Some(name) => SharedAfter::Named(name.clone()),
                    None => {
                        fresh += 1;
                        SharedAfter::Fresh(fresh)
                    }
                });
            }
        }
    }
    named
}

struct Reader<'r, 'a> {
    cycle: &'r Cycle<'a>,
    input: &'r Input,
    names: BTreeMap<usize, SharedAfter>,
}

impl Reader<'_, '_> {
    fn placement(&self, at: At) -> PlacementAfter {
        let index = self.cycle.rules.index;
        let place = &index.places[at.place];
        let lot = &self.cycle.state.lots[at.lot.0..at.lot.1];
        let shared = lot.iter().filter_map(|row| self.names.get(row).cloned());
        PlacementAfter {
            node: self.input.nodes[index.nodes[place.node].given].name.clone(),
            devices: place.devices,
            shared: shared.collect(),
        }
    }

    fn after(&self, task: usize) -> TaskAfter {
        let now = self.cycle.state.tasks[task];
        let state = match now.state {
            TaskStatus::Pending => TaskState::Pending,
            TaskStatus::Gated => TaskState::Gated,
            TaskStatus::Bound => TaskState::Bound,
            TaskStatus::Running => TaskState::Running,
            TaskStatus::Pipelined => TaskState::Pipelined,
            TaskStatus::Releasing | TaskStatus::Evicted => TaskState::Releasing,
            TaskStatus::Succeeded => TaskState::Succeeded,
            TaskStatus::Failed => TaskState::Failed,
        };
        TaskAfter {
            state,
            placement: now.at.map(|at| self.placement(at)),
            leaves: now.from.map(|at| self.placement(at)),
            charged: if now.charged { self.cycle.state.charge(task) } else { Amounts::default() },
        }
    }

    fn change(&self, task: usize, before: TaskState) -> Option<Change> {
        let now = self.cycle.state.tasks[task];
        let ran = matches!(before, TaskState::Bound | TaskState::Running);
        let (stage, job) = self.cycle.ended_for[task].unwrap_or((Stage::StaleGangs, 0));
        let for_job = self.cycle.rules.index.jobs.get(job).map_or(0, |job| job.given);
        match (ran, now.state, now.at) {
            (false, TaskStatus::Bound, Some(at)) => Some(Change::Bind(self.placement(at))),
            (false, TaskStatus::Pipelined, Some(at)) if before != TaskState::Pipelined => {
                Some(Change::Claim(self.placement(at)))
            }
            (true, TaskStatus::Pipelined, Some(at)) => {
                Some(Change::Move { to: self.placement(at), stage, for_job })
            }
            (true, TaskStatus::Releasing, _) => Some(Change::Evict { stage, for_job }),
            _ => None,
        }
    }

    fn why(&self, job: usize, obstacle: &Obstacle) -> Why {
        let index = self.cycle.rules.index;
        let given = |project: usize| index.projects[project].given;
        match *obstacle {
            Obstacle::NoProject => Why::NoProject,
            Obstacle::TooFew => Why::TooFewTasks,
            Obstacle::Passed(it) => {
                let (kind, held, asked, bound) = (it.kind, it.held, it.asked, it.bound);
                let line = Line { project: given(it.project), kind, held, asked, bound };
                if it.guarantee { Why::OverGuarantee(line) } else { Why::OverLimit(line) }
            }
            Obstacle::NoRoom { task, lacks } => {
                Why::NoRoom { task: index.tasks[task].given, lacks }
            }
            Obstacle::NotEnough { asked, free } => Why::NotEnoughFree { asked, free },
            Obstacle::AsAnother { job } => Why::AsAnother { job: index.jobs[job].given },
            Obstacle::NobodyGivesWay => Why::NobodyGivesWay,
            Obstacle::Barred(barred) => self.barred(job, barred),
        }
    }

    fn barred(&self, job: usize, barred: Barred) -> Why {
        let index = self.cycle.rules.index;
        let given = |project: usize| index.projects[project].given;
        let entitled = &self.cycle.rules.entitled.projects;
        let unit = super::unit::unit(&self.cycle.state, job).unwrap_or_default();
        let asked = super::unit::charge(&self.cycle.state, &unit);
        match barred {
            Barred::Share { project, kind } => Why::OverShare(Line {
                project: given(project),
                kind,
                held: self.cycle.state.allocated[project][kind],
                asked: asked[kind],
                bound: entitled[project].fair[kind],
            }),
            Barred::Guarantee { project, kind } => Why::OverGuarantee(Line {
                project: given(project),
                kind,
                held: self.cycle.state.fixed[project][kind],
                asked: asked[kind],
                bound: entitled[project].guaranteed(kind).unwrap_or(i64::MAX),
            }),
            Barred::Own { project } => Why::Own { project: given(project) },
            Barred::Saturated { project, other, kind } => {
                Why::Saturated { project: given(project), other: given(other), kind }
            }
        }
    }
}
