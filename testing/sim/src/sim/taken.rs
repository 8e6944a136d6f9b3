//! The rules for preempted and reclaimed work: the beneficiary claims the devices, and keeps the
//! claim until it starts on them, unless a user's request, its own end or a pause that fails takes
//! it away.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::{Report, TaskIs};
use gpool_model::job::StopCause;
use gpool_model::{Allocation, AllocationState, Attempt, Event, JobId, Phase, TaskId};
use gpool_world::{JobRow, World};

use crate::broken::Invariant;
use crate::sim::Sim;

/// Evicted attempts with a settled claim: the beneficiary has the devices, or gave them up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Taken {
    settled: BTreeSet<(JobId, Attempt)>,
}

/// The claims of each job before a step.
pub(crate) type Claims = BTreeMap<JobId, Vec<Allocation>>;

/// Reasons to lose a claim that reached the server in a step.
pub(crate) struct Causes {
    /// Whether an agent was lost.
    has_lost_nodes: bool,
    has_requests: bool,
    /// Jobs with a pause that failed. At the end of the step a job may be paused again, or gone.
    not_paused: BTreeSet<JobId>,
}

impl Causes {
    pub fn of(events: &[Event]) -> Self {
        let reports = events.iter().flat_map(|event| match event {
            Event::Reported { report: Report::Task(task), .. } => std::slice::from_ref(task),
            Event::Reported { report: Report::Tasks { tasks, .. }, .. } => tasks,
            _ => &[],
        });
        let failed = reports.filter(|report| matches!(report.is, TaskIs::NotPaused { .. }));
        let is_loss = |event: &Event| match event {
            Event::AgentSilence { silence, .. } => silence.is_some_and(|silence| silence.is_lost),
            _ => false,
        };
        Self {
            has_lost_nodes: events.iter().any(is_loss),
            has_requests: events.iter().any(|it| matches!(it, Event::Requested { .. })),
            not_paused: failed.map(|report| report.task.job).collect(),
        }
    }
}

impl Sim {
    pub(crate) fn claims(&self) -> Claims {
        let Some(server) = &self.server else { return Claims::new() };
        let world = server.control.world();
        let claim = |id| Some((id, world.job(id)?.job.phase.allocations().to_vec()));
        world.claimants().filter_map(claim).collect()
    }

    /// Checks that each claim before a step still exists or was used, or that there is a reason why
    /// not.
    pub(crate) fn check_claims(&mut self, before: &Claims, causes: &Causes) {
        let Some(server) = &self.server else { return };
        let world = server.control.world();
        let mut settled = Vec::new();
        let mut lost = None;
        for (id, claimed) in before {
            let row = world.job(*id);
            let now = row.map_or(&[][..], |row| row.job.phase.allocations());
            let is_same = now.len() == claimed.len()
                && now.iter().zip(claimed).all(|(now, it)| {
                    (now.task, &now.node, &now.slots) == (it.task, &it.node, &it.slots)
                });
            let after = awaited(claimed);
            // A job that was put back may claim the same place again, after other victims.
            let still = awaited(now);
            let no_longer = after.iter().filter(|task| !still.contains(task));
            settled.extend(no_longer.map(|task| (task.job, task.attempt)));
            if is_same && now.iter().any(is_claim) {
                continue;
            }
            let is_excused = causes.has_requests
                || causes.has_lost_nodes
                || after.iter().any(|task| causes.not_paused.contains(&task.job))
                || row.is_some_and(|row| self.has_ended(row, claimed))
                || id.element.is_some() && is_array_stopped(world, id)
                || row.is_none_or(|row| row.spec.life.deadline.is_some())
                || world.drained().next().is_some()
                || !world.reservations().is_empty();
            if !is_same && !is_excused {
                lost = Some(*id);
            }
        }
        let before = self.watch.taken.settled.len();
        self.watch.taken.settled.extend(settled);
        let n_taken = self.watch.taken.settled.len() - before;
        self.totals.evictions += u64::try_from(n_taken).expect("few");
        if let Some(id) = lost {
            let what = format!("job {id} lost its claim on devices of its victims");
            self.blame(Invariant::Taken, what);
        }
    }

    /// Whether the attempt that claims is over because its program or its shepherd really ended,
    /// and the job runs again.
    fn has_ended(&self, row: &JobRow, claimed: &[Allocation]) -> bool {
        let is_over = |task: &TaskId| {
            let run = self.watch.runs.get(task);
            run.is_some_and(|run| run.ended.is_some()) || self.watch.unlaunched.contains(task)
        };
        let mut tasks = claimed.iter().map(|it| it.task);
        tasks.any(|task| task.attempt < row.job.attempt && is_over(&task))
    }

    /// Checks that the devices of each victim are claimed by its beneficiary.
    pub(crate) fn check_claimed(&mut self) {
        let Some(server) = self.server.as_ref().filter(|_| !self.store.is_broken) else { return };
        let world = server.control.world();
        let claims = |id: JobId| {
            let row = world.job(id);
            row.is_some_and(|row| row.job.phase.allocations().iter().any(is_claim))
        };
        let owes = |row: &&JobRow| match &row.job.phase {
            Phase::Stopping { cause: StopCause::TakenBack { beneficiary, .. }, .. } => {
                let attempt = (row.job.id, row.job.attempt);
                !self.watch.taken.settled.contains(&attempt) && !claims(*beneficiary)
            }
            _ => false,
        };
        let found = world.holding().find(owes).map(|row| row.job.id);
        if let Some(id) = found {
            let what = format!("job {id} is evicted, and no job claims its devices");
            self.blame(Invariant::Taken, what);
        }
    }
}

/// Whether the array of an element was stopped as a whole, or is over.
fn is_array_stopped(world: &World, id: &JobId) -> bool {
    let array = world.array(id.number).and_then(|row| row.job.array.as_ref());
    array.is_none_or(|it| it.stopped.is_some())
}

/// The tasks that claims wait for.
fn awaited(allocations: &[Allocation]) -> Vec<TaskId> {
    let after = allocations.iter().flat_map(|it| match &it.state {
        AllocationState::Claimed { after } => after.as_slice(),
        _ => &[],
    });
    after.copied().collect()
}

fn is_claim(allocation: &Allocation) -> bool {
    matches!(allocation.state, AllocationState::Claimed { .. })
}
