//! The input of a forecast: an excerpt of the world, and how long its jobs will run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpool_model::{JobId, Phase, Timestamp};
use gpool_world::{Excerpt, Snapshot, World};

use super::HORIZON;
use super::length::Length;

/// How many dependencies are examined per job to find the jobs that follow.
const LOOKS_PER_JOB: usize = 32;

/// The input of a forecast. Its cost depends on its own size.
#[derive(Debug, Clone)]
pub struct ForecastInput {
    pub now: Timestamp,
    /// Nodes, rules and jobs.
    pub excerpt: Excerpt,
    /// How long the jobs of the excerpt will run.
    pub lengths: BTreeMap<JobId, Length>,
    /// How many pending jobs are left out: all of them come after the included ones.
    pub n_beyond: u64,
    /// A job that was included although it may come after excluded ones.
    pub beyond: Option<JobId>,
}

impl ForecastInput {
    /// Takes all jobs that hold something, the first pending jobs, and the jobs that wait for
    /// these; and `also`, if it waits.
    #[must_use]
    pub fn of(snapshot: &Snapshot<'_>, n_jobs_max: usize, also: Option<JobId>) -> Self {
        let world = snapshot.world;
        let mut taken: BTreeSet<JobId> = world.holding().map(|row| row.job.id).collect();
        let pending = gpool_sched::in_order(snapshot, world.policy()).take(n_jobs_max);
        let first: Vec<JobId> = pending.collect();
        let n_first: u64 = first.iter().map(|id| n_of(world, *id)).sum();
        let n_beyond = world.n_pending().saturating_sub(n_first);
        taken.extend(first);
        let until = snapshot.now.after(HORIZON);
        let due = world.due_later().take(n_jobs_max).take_while(|(at, _)| *at <= until);
        taken.extend(due.map(|(_, id)| id).filter(|id| waits_for_a_moment(world, *id)));
        add_waiting(world, &mut taken, n_jobs_max);
        let also = also.filter(|id| world.job(*id).is_some() && !taken.contains(id));
        if let Some(id) = also {
            taken.insert(id);
            add_awaited(world, id, &mut taken, n_jobs_max);
        }
        // Elements need their array.
        let arrays: Vec<JobId> = taken.iter().copied().map(whole).collect();
        taken.extend(arrays.into_iter().filter(|id| world.job(*id).is_some()));
        let excerpt = world.excerpt(taken);
        let rows = excerpt.jobs.iter();
        let lengths = rows
            .map(|(id, row)| (*id, Length::of(row, world.prediction(&row.spec), snapshot.now)))
            .collect();
        Self { now: snapshot.now, excerpt, lengths, n_beyond, beyond: also }
    }

    /// Builds the world of this part.
    #[must_use]
    pub fn world(&self) -> World {
        self.excerpt.world(self.now)
    }

    /// Whether the result for a job is valid although other jobs wait too: jobs outside this part
    /// must come after it.
    #[must_use]
    pub fn covers(&self, world: &World, job: JobId) -> bool {
        if self.n_beyond == 0 {
            return true;
        }
        let snapshot = Snapshot { world, now: self.now };
        // An element that never started is in the queue with its array.
        let row = world.row_for(job);
        match row.map(|row| &row.job.phase) {
            Some(phase) if phase.waits_for_room_since().is_some() => {
                let last = gpool_sched::in_order(&snapshot, world.policy()).last();
                last != row.map(|row| row.job.id)
            }
            // It takes its place in the queue when it may start, and other jobs may have come by
            // then.
            Some(Phase::Waiting { .. }) => self.beyond != Some(job),
            _ => false,
        }
    }
}

/// Returns the array that an element belongs to; any other job itself.
pub(super) fn whole(id: JobId) -> JobId {
    JobId { element: None, ..id }
}

/// Returns how many pending jobs an entry counts for.
fn n_of(world: &World, id: JobId) -> u64 {
    world.place_of(id).map_or(0, |(shape_ix, _)| world.shape(shape_ix).n_of(id))
}

/// Whether a job waits for a moment and for no other job.
fn waits_for_a_moment(world: &World, id: JobId) -> bool {
    world.job(id).is_some_and(|row| {
        let mut awaited = row.spec.after.iter().chain(&row.spec.life.after_one);
        matches!(row.job.phase, Phase::Waiting { .. })
            && awaited.all(|after| !world.is_awaited(*after))
    })
}

/// Adds jobs that wait only for jobs of the part.
fn add_waiting(world: &World, taken: &mut BTreeSet<JobId>, n_jobs_max: usize) {
    let mut n_left = n_jobs_max;
    let mut n_looks_left = n_jobs_max.saturating_mul(LOOKS_PER_JOB);
    let mut ends: VecDeque<JobId> = taken.iter().copied().collect();
    while let Some(id) = ends.pop_front() {
        for dependent in world.dependents(id) {
            let Some(row) = world.job(dependent) else { continue };
            let n_looks = usize::try_from(1 + row.spec.n_dependencies()).unwrap_or(usize::MAX);
            n_looks_left = n_looks_left.saturating_sub(n_looks);
            if n_looks_left == 0 {
                return;
            }
            let is_known = |job: JobId| {
                !world.is_live(job) || taken.contains(&job) || taken.contains(&whole(job))
            };
            // A held job may still end because of its dependencies, and release others.
            let follows = matches!(row.job.phase, Phase::Waiting { .. } | Phase::Held { .. })
                && (row.spec.after.iter().chain(&row.spec.life.after_one))
                    .all(|after| is_known(after.job));
            if n_left > 0 && follows && taken.insert(dependent) {
                n_left -= 1;
                ends.push_back(dependent);
            }
        }
    }
}

/// Adds the dependencies of a job, and theirs.
fn add_awaited(world: &World, id: JobId, taken: &mut BTreeSet<JobId>, n_jobs_max: usize) {
    let mut n_left = n_jobs_max;
    let mut jobs = vec![id];
    while let Some(row) = jobs.pop().and_then(|id| world.job(id)) {
        for after in &row.spec.after {
            let Some(awaited) = world.row_for(after.job).map(|row| row.job.id) else { continue };
            if n_left > 0 && taken.insert(awaited) {
                n_left -= 1;
                jobs.push(awaited);
            }
        }
    }
}
