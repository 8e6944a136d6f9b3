//! One cycle: snapshot, plan, verify, apply. A plan that breaks an invariant, or a panic of the
//! scheduler, raises an alert and is not applied; the job that causes it is set aside.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpool_model::event::Journaled;
use gpool_model::job::JobState;
use gpool_model::{
    Alert, Allocation, AllocationState, Attempt, Decision, JobId, Millis, Phase, Placement, Plan,
    PlannedStart, TaskId, Timestamp,
};
use gpool_sched::Workspace;
use gpool_world::Snapshot;

use crate::control::{Control, set_aside};

/// The violation that an alert reports if the scheduler panicked.
pub const PANICKED: &str = "the scheduler panicked";

/// A planned start that moves by no more than this is not journaled again.
const TOLD_STEP: Millis = Millis::from_mins(1);

/// Whether two lists of planned starts are equal except for small differences in time.
fn is_same(told: &[PlannedStart], planned: &[PlannedStart]) -> bool {
    let is_near = |one: Timestamp, other: Timestamp| {
        one.since(other) <= TOLD_STEP && other.since(one) <= TOLD_STEP
    };
    told.len() == planned.len()
        && told.iter().zip(planned).all(|(one, other)| {
            let same = PlannedStart { at: other.at, ..one.clone() };
            same == *other && is_near(one.at, other.at)
        })
}

/// Returns the jobs that these decisions of a plan evict.
fn leaving(decisions: &[Decision], after: &[u32]) -> Vec<JobId> {
    let evicted =
        after.iter().filter_map(|ix| match decisions.get(usize::try_from(*ix).ok()?)? {
            Decision::Evict { job, .. } => Some(*job),
            Decision::Start { .. } | Decision::Resume { .. } => None,
        });
    evicted.collect()
}

impl Control {
    /// The largest number of cycles in one step, without those that a resume cut short.
    const ROUNDS_MAX: usize = 8;

    /// The largest number of jobs that are set aside in one step; the next step continues.
    const SET_ASIDE_MAX: usize = 64;

    /// Runs cycles and applies their plans until nothing is left to decide. A job that starts late
    /// in a cycle can put a project over its share, so that the next cycle reclaims its capacity at
    /// once, without any change from outside. One cycle is usually enough.
    pub(crate) fn cycle(&mut self) {
        self.world.advance(self.now);
        self.has_more = true;
        if self.is_stopping || self.is_full {
            return;
        }
        let mut n_rounds = 0;
        while n_rounds < Self::ROUNDS_MAX {
            // Without a valid plan, the next event tries again.
            let Some(has_decided) = self.one_cycle() else { return };
            if !has_decided || self.workspace.is_settled() {
                self.has_more = false;
                return;
            }
            // No job resumes twice: an order to pause it needs an answer first.
            n_rounds += usize::from(!self.workspace.is_cut());
        }
    }

    /// Runs one cycle; returns whether it decided anything, or `None` without a valid plan.
    fn one_cycle(&mut self) -> Option<bool> {
        self.reseat();
        // Each decision is for the sake of a job that waits.
        let plan = match self.anything_waits() {
            true => self.verified_plan()?,
            false => Plan { basis: self.world.revision(), ..Plan::default() },
        };
        let is_told = is_same(&self.journaled_starts, &plan.planned);
        self.planned = plan.planned;
        if plan.decisions.is_empty() && is_told {
            return Some(false);
        }
        self.seq = self.world.cluster().last_seq.next();
        for decision in &plan.decisions {
            match decision {
                Decision::Start { job, attempt, placements, after } => {
                    let leaving = leaving(&plan.decisions, after);
                    self.start(*job, *attempt, placements, &leaving);
                }
                Decision::Resume { job, after, .. } => {
                    let leaving = leaving(&plan.decisions, after);
                    self.resume_one(*job, &leaving);
                }
                Decision::Evict { job, why, beneficiary, exit, .. } => {
                    self.take_back(*job, *why, *beneficiary, *exit);
                }
            }
        }
        if !is_told {
            self.journaled_starts.clone_from(&self.planned);
        }
        let (basis, decisions) = (plan.basis, plan.decisions);
        let planned = (!is_told).then(|| self.planned.clone());
        let has_decided = !decisions.is_empty();
        self.note(Journaled::Planned { basis, decisions, planned });
        Some(has_decided)
    }

    /// Whether a job waits for capacity.
    fn anything_waits(&self) -> bool {
        let n_by_state = self.world.n_by_state();
        [JobState::Pending, JobState::Paused].iter().any(|state| n_by_state.contains_key(state))
    }

    /// Verifies one plan in `n_plans` from now on: in a simulation, a wrong plan does no harm.
    pub fn verify_one_of(&mut self, n_plans: u64) {
        self.verify_one_of = n_plans.max(1);
    }

    /// The planned starts of the last cycle.
    #[must_use]
    pub fn planned(&self) -> &[PlannedStart] {
        &self.planned
    }

    /// Returns the next time of a planned start. A job in its way then runs longer than expected,
    /// and other jobs may start first.
    pub(crate) fn next_planned(&self) -> Option<Timestamp> {
        self.planned.iter().map(|planned| planned.at).filter(|at| *at > self.now).min()
    }

    /// Returns a plan that breaks no invariant. A job that causes a violation is set aside, and the
    /// next plan is made without it. `None` if no such job is found, or there are too many.
    fn verified_plan(&mut self) -> Option<Plan> {
        for _ in 0..Self::SET_ASIDE_MAX {
            let refused = match self.plan() {
                Ok(plan) => return Some(plan),
                Err(refused) => refused,
            };
            if !self.set_aside(*refused) {
                break;
            }
        }
        None
    }

    /// Makes a plan and verifies it.
    fn plan(&mut self) -> Result<Plan, Box<Alert>> {
        self.n_plans += 1;
        let is_verified = self.n_plans.is_multiple_of(self.verify_one_of);
        let snapshot = Snapshot { world: &self.world, now: self.now };
        let policy = self.world.policy();
        let workspace = &mut self.workspace;
        let distort = self.distort;
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut plan = gpool_sched::decide(&snapshot, policy, workspace);
            distort.iter().for_each(|distort| distort(&mut plan));
            let violations = match is_verified {
                true => gpool_verify::verify(&snapshot, policy, &plan),
                false => Vec::new(),
            };
            if violations.is_empty() {
                return Ok(plan);
            }
            let set_aside = set_aside::wrong_for(&snapshot, policy, &plan);
            plan.waits = gpool_sched::plan(&snapshot, policy, workspace).waits;
            Err((plan, violations, set_aside))
        }));
        let (plan, violations, set_aside) = match made {
            Ok(Ok(plan)) => return Ok(plan),
            Ok(Err((plan, violations, set_aside))) => {
                (Some(plan), violations.iter().map(ToString::to_string).collect(), set_aside)
            }
            Err(_) => (None, vec![PANICKED.to_owned()], workspace.current_job()),
        };
        self.workspace = Workspace::default();
        let (basis, records) = (self.world.revision(), self.world.records());
        Err(Box::new(Alert { now: self.now, basis, records, plan, violations, set_aside }))
    }

    /// Whether a pending job is escalated; for an element, whether its array is.
    fn is_escalated(&self, id: JobId) -> bool {
        let array = JobId { element: None, ..id };
        let place = self.world.place_of(id).or_else(|| self.world.place_of(array));
        place.is_some_and(|(_, is_escalated)| is_escalated)
    }

    /// Gives a job its placements. It starts at once, or when the leaving jobs have left.
    fn start(&mut self, id: JobId, attempt: Attempt, placements: &[Placement], leaving: &[JobId]) {
        let is_escalated = self.is_escalated(id);
        self.set_apart(&[id]);
        let row = self.world.job(id).expect("a verified plan starts jobs that are there");
        let spec = std::sync::Arc::clone(&row.spec);
        let mut job = row.job.clone();
        if let Phase::Pending { since } = job.phase {
            job.waited = job.waited.saturating_add(self.now.since(since));
        }
        if is_escalated && self.world.policy().asks_attained() {
            // The job counts as new, and so runs until it has attained as much again.
            job.waited = Millis::ZERO;
            job.course.forgiven = job.course.attained;
        }
        let afters = self.claims_after(id, placements, leaving);
        let is_claim = afters.iter().any(|after| !after.is_empty());
        let allocations: Vec<Allocation> = (0u32..)
            .zip(placements.iter().zip(afters))
            .map(|(rank, (placement, after))| Allocation {
                task: TaskId { job: id, attempt, rank },
                node: placement.node.clone(),
                slots: placement.slots.clone(),
                resources: spec.resources(rank, &placement.slots),
                state: match is_claim {
                    true => AllocationState::Claimed { after },
                    false => AllocationState::Placed,
                },
            })
            .collect();
        job.phase = Phase::Starting { allocations: allocations.clone(), since: self.now };
        self.put_job(job);
        if !is_claim {
            self.order_start(id, allocations);
        }
    }
}
