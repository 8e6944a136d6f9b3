//! The rules for planned starts: no job later in the queue order takes the capacity of a planned
//! start, and it moves to a later time only for a documented reason.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::job::StopCause;
use gpool_model::policy::ShareBetween;
use gpool_model::record::RecordKind;
use gpool_model::{
    Commit, Decision, Effect, Job, JobId, JobSpec, Phase, PlannedStart, Policy, ProjectName,
    Record, RecordKey, ResourceKind, TakenBack, Timestamp,
};
use gpool_sched::Workspace;
use gpool_world::{JobRow, Snapshot, World};

use crate::broken::Invariant;
use crate::sim::Sim;
use crate::swarm;

/// The planned starts before a step.
pub(crate) struct Before {
    planned: Vec<PlannedStart>,
    holding: BTreeMap<JobId, Job>,
}

impl Before {
    pub fn of(sim: &Sim) -> Option<Self> {
        let control = &sim.server.as_ref()?.control;
        let holding = control.world().holding().map(|row| (row.job.id, row.job.clone())).collect();
        Some(Self { planned: control.planned().to_vec(), holding })
    }
}

impl Sim {
    /// Looks at what a step did to planned starts.
    pub(crate) fn check_planned(&mut self, before: &Before, effects: &[Effect]) {
        let Some(server) = &self.server else { return };
        let control = &server.control;
        let (world, now) = (control.world(), server.life.clock());
        let step = Step::of(world, now, &before.holding);
        let moved = before.planned.iter().filter_map(|was| {
            let is = control.planned().iter().find(|is| is.job == was.job && is.at > was.at)?;
            Some((was, is))
        });
        let commit = effects.iter().find_map(|effect| match effect {
            Effect::Commit(commit) => Some(commit),
            _ => None,
        });
        let unexplained = moved.into_iter().find(|(was, _)| !step.explains(was.job, commit));
        let what = match (step.delayed(), unexplained) {
            (Some(what), _) => what,
            (None, Some((was, is))) => {
                format!(
                    "job {} was to start at {} and now at {}",
                    was.job,
                    was.at.get(),
                    is.at.get()
                )
            }
            (None, None) => return,
        };
        self.blame(Invariant::Planned, what);
    }
}

/// The state after a step, and what started in it.
struct Step<'a> {
    held_before: &'a BTreeMap<JobId, Job>,
    world: &'a World,
    now: Timestamp,
    started: Vec<JobId>,
    /// In order, as if these had not started.
    order: Vec<JobId>,
}

impl<'a> Step<'a> {
    fn of(world: &'a World, now: Timestamp, held_before: &'a BTreeMap<JobId, Job>) -> Self {
        let starts = world.holding().filter(|row| {
            let is_new = matches!(row.job.phase, Phase::Starting { .. });
            // Elements go by their array's place in the order.
            is_new && row.job.id.element.is_none() && !held_before.contains_key(&row.job.id)
        });
        let started: Vec<JobId> = starts.map(|row| row.job.id).collect();
        let pending = Phase::Pending { since: now };
        let before = with(world, now, &started, &pending);
        let snapshot = Snapshot { world: &before, now };
        let order = gpool_sched::in_order(&snapshot, world.policy()).collect();
        Self { held_before, world, now, started, order }
    }

    fn place(&self, job: JobId) -> Option<usize> {
        self.order.iter().position(|other| *other == job)
    }

    /// Whether `job` is after `other` in the queue order. Between projects the order depends on
    /// their allocations, and within one the request decides whether the job borrows. There, only a
    /// later job that is charged at least as much counts as after.
    fn is_after(&self, job: JobId, other: JobId) -> bool {
        let is_later =
            self.place(job).zip(self.place(other)).is_some_and(|(job, other)| job > other);
        is_later && (!self.is_shared() || self.is_like(job, other))
    }

    fn is_like(&self, job: JobId, other: JobId) -> bool {
        let rows = self.world.job(job).zip(self.world.job(other));
        rows.is_some_and(|(job, other)| {
            let (job, other) = (&job.spec, &other.spec);
            let asks = |spec: &JobSpec| {
                (spec.gpus_together(), spec.cpus, spec.memory, spec.gang.n_tasks())
            };
            let (more, less) = (asks(job), asks(other));
            // Where quotas name models or pools, the charge depends on the GPUs that a job may use.
            let has_same_gpus =
                || (&job.gpus, &job.pool, &job.nodes) == (&other.gpus, &other.pool, &other.nodes);
            (&job.project, job.owner.uid) == (&other.project, other.owner.uid)
                && job.life.preemptible == other.life.preemptible
                && (!self.names_gpus() || has_same_gpus())
                // An exclusive job is charged for whole nodes.
                && (job.is_exclusive() || !other.is_exclusive())
                && more.0 >= less.0
                && more.1 >= less.1
                && more.2 >= less.2
                && more.3 >= less.3
        })
    }

    /// Whether a quota is one of a model or a pool of GPUs.
    fn names_gpus(&self) -> bool {
        let mut projects = self.world.projects().values();
        projects.any(|it| it.quotas.iter().any(|(kind, _)| kind.is_part_of_gpus()))
    }

    /// Whether projects take turns.
    fn is_shared(&self) -> bool {
        let policy = self.world.policy();
        let projects = self.world.projects();
        policy.shares()
            && (policy.share_between == ShareBetween::Users
                || projects.len() > 1
                || projects.values().any(|it| !it.is_open()))
    }

    /// Returns a job with a planned start that could start earlier if no later job had started in
    /// this step. The policy without planted bugs decides which jobs have planned starts.
    fn delayed(&self) -> Option<String> {
        // A paused job has a place in the order, and no planned start.
        let is_paused = |row: &JobRow| matches!(row.job.phase, Phase::Paused { .. });
        let is_unclear = self.world.holding().any(is_paused) || self.frees_memory();
        if self.started.is_empty() || is_unclear {
            return None;
        }
        let policy: Policy = swarm::right(self.world.policy());
        let plan = |world: &World| {
            let snapshot = Snapshot { world, now: self.now };
            gpool_sched::plan(&snapshot, &policy, &mut Workspace::default())
        };
        let reclaimed = self.reclaimed_from();
        let is_loan =
            |id: JobId| self.world.job(id).is_some_and(|row| reclaimed.contains(&row.spec.project));
        for is in plan(self.world).planned {
            let job = is.job;
            let after = self.started.iter().copied().filter(|id| self.is_after(*id, job));
            let after = after.filter(|id| !is_loan(*id));
            let after: Vec<JobId> = after.collect();
            if after.is_empty() {
                continue;
            }
            let held =
                Phase::Held { by: gpool_model::job::Holder::Admin, since: self.now, missing: None };
            let mut world = with(self.world, self.now, &after, &held);
            self.victims(&after).for_each(|job| world.put_job(job));
            let without = plan(&world);
            let planned = without.planned.iter().find(|other| other.job == job);
            let at = match planned {
                Some(planned) => planned.at,
                None if without.decisions.iter().any(|it| starts(it, job)) => self.now,
                None => continue,
            };
            if at < is.at {
                return Some(format!(
                    "job {job} could start at {} and starts at {}, because of {after:?}, which \
                     come after it",
                    at.get(),
                    is.at.get()
                ));
            }
        }
        None
    }

    /// Whether a paused task gave up its host memory in this step. A pass that resumes it has
    /// already decided on the jobs before it, so these do not count on that memory.
    fn frees_memory(&self) -> bool {
        let memory = |job: &Job| {
            let held = job.phase.allocations().iter();
            held.map(|it| it.resources.get(&ResourceKind::PauseMemory)).sum::<u64>()
        };
        self.held_before.values().any(|was| {
            let now = self.world.job(was.id).map_or(0, |row| memory(&row.job));
            memory(was) > now
        })
    }

    /// The projects that others reclaimed from in this step. A start that took such a project over
    /// its share made the reclaim possible, so the step without the start is another one.
    fn reclaimed_from(&self) -> BTreeSet<&ProjectName> {
        let reclaimed = self.world.holding().filter(|row| {
            let was_there = self.held_before.get(&row.job.id);
            let was_leaving = was_there.is_none_or(|it| matches!(it.phase, Phase::Stopping { .. }));
            let cause = match &row.job.phase {
                Phase::Stopping { cause, .. } => Some(cause),
                _ => None,
            };
            let is_reclaim =
                matches!(cause, Some(StopCause::TakenBack { why: TakenBack::Reclaim, .. }));
            is_reclaim && !was_leaving
        });
        reclaimed.map(|row| &row.spec.project).collect()
    }

    /// The jobs that left for these in this step, as they were before.
    fn victims(&self, beneficiaries: &[JobId]) -> impl Iterator<Item = Job> {
        let left = self.world.holding().filter(|row| match &row.job.phase {
            Phase::Stopping { cause: StopCause::TakenBack { beneficiary, .. }, .. } => {
                beneficiaries.contains(beneficiary)
            }
            _ => false,
        });
        left.filter_map(|row| self.held_before.get(&row.job.id).cloned())
    }

    /// Whether something was written down in the step that may move a planned start to later, or
    /// time has passed an end that was counted on.
    fn explains(&self, job: JobId, commit: Option<&Commit>) -> bool {
        let now = self.now;
        let is_late = |row: &gpool_world::JobRow| {
            let end = self.world.expected_end(row, Timestamp::ZERO);
            end.is_some_and(|end| end.at <= now)
        };
        let changes = commit.into_iter().flat_map(|commit| &commit.records);
        let records = changes.filter_map(|change| change.value.as_ref());
        let is_cause = |record: &Record| match record {
            Record::Job(it) => it.id == job || self.may_be_in_the_way(it, job),
            Record::JobSpec(spec) => spec.id == job,
            Record::Policy(_)
            | Record::Project(_)
            | Record::Node(_)
            | Record::Reservation(_)
            | Record::Used(_)
            | Record::PastRuns(_) => true,
            Record::Cluster(_)
            | Record::Idempotency(_)
            | Record::Delivery(_)
            | Record::Subscription(_) => false,
        };
        let is_of_job = |key: &RecordKey| matches!(key.kind, RecordKind::Job | RecordKind::JobSpec);
        let mut changed = commit.into_iter().flat_map(|commit| &commit.records);
        // The order between projects depends on all their allocations and demand.
        let is_anothers_turn = self.is_shared() && changed.any(|it| is_of_job(&it.key));
        // Reservations begin and end with time.
        is_anothers_turn
            || !self.world.reservations().is_empty()
            || self.world.holding().any(is_late)
            || records.into_iter().any(is_cause)
    }

    /// Whether a changed job holds capacity, except a later job that started in this step.
    fn may_be_in_the_way(&self, it: &Job, job: JobId) -> bool {
        let came_after = self.started.contains(&it.id) && self.is_after(it.id, job);
        !came_after && !it.phase.allocations().is_empty()
    }
}

fn starts(decision: &Decision, job: JobId) -> bool {
    decision.started().is_some_and(|(started, _)| started == job)
}

/// The same with other phases.
fn with(world: &World, now: Timestamp, jobs: &[JobId], phase: &Phase) -> World {
    let mut world = world.clone();
    for id in jobs {
        if let Some(row) = world.job(*id) {
            let job = Job { phase: phase.clone(), ..row.job.clone() };
            world.put_job(job);
        }
    }
    world.advance(now);
    world
}
