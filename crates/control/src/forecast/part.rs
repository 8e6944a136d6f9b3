//! What a forecast is made from: an excerpt of the world, and how long its jobs will run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpool_model::{JobId, Phase, Timestamp};
use gpool_world::{Excerpt, Snapshot, World};

use super::HORIZON;
use super::length::Length;

/// For each job that may be taken, how many dependencies are looked at to find those that follow.
const LOOKS_PER_JOB: usize = 32;

/// What a forecast is made from. To take it costs what it holds.
#[derive(Debug, Clone)]
pub struct Part {
    /// The moment.
    pub now: Timestamp,
    /// Nodes, rules and jobs.
    pub excerpt: Excerpt,
    /// How long jobs of the excerpt will run.
    pub lengths: BTreeMap<JobId, Length>,
    /// Jobs that wait for room and are not in it: all come after those that are.
    pub n_beyond: u64,
    /// A job that was asked for although it may come after others that are not in it.
    pub beyond: Option<JobId>,
}

impl Part {
    /// All that holds something, the first so many jobs that wait for room, and those that wait
    /// for these; and one more, if it waits.
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
        // Elements are nothing without their array.
        let arrays: Vec<JobId> = taken.iter().copied().map(whole).collect();
        taken.extend(arrays.into_iter().filter(|id| world.job(*id).is_some()));
        let excerpt = world.excerpt(taken);
        let rows = excerpt.jobs.iter();
        let lengths = rows
            .map(|(id, row)| (*id, Length::of(row, world.prediction(&row.spec), snapshot.now)))
            .collect();
        Self { now: snapshot.now, excerpt, lengths, n_beyond, beyond: also }
    }

    /// The world of it.
    #[must_use]
    pub fn world(&self) -> World {
        self.excerpt.world(self.now)
    }

    /// Whether what is found out about a job holds although other jobs wait too: those that are
    /// not in this part must come after it.
    #[must_use]
    pub fn covers(&self, world: &World, job: JobId) -> bool {
        if self.n_beyond == 0 {
            return true;
        }
        let snapshot = Snapshot { world, now: self.now };
        // An element that was never started stands in the queue with its array.
        let row = world.row_for(job);
        match row.map(|row| &row.job.phase) {
            Some(phase) if phase.waits_for_room_since().is_some() => {
                let last = gpool_sched::in_order(&snapshot, world.policy()).last();
                last != row.map(|row| row.job.id)
            }
            // When it may start is when it takes its place, and others may have come by then.
            Some(Phase::Waiting { .. }) => self.beyond != Some(job),
            _ => false,
        }
    }
}

/// The array that an element belongs to; any other job itself.
pub(super) fn whole(id: JobId) -> JobId {
    JobId { element: None, ..id }
}

/// For how many jobs one stands that waits for room.
fn n_of(world: &World, id: JobId) -> u64 {
    world.place_of(id).map_or(0, |(shape_ix, _)| world.shape(shape_ix).n_of(id))
}

/// Whether a job waits for no other, but for its time.
fn waits_for_a_moment(world: &World, id: JobId) -> bool {
    world.job(id).is_some_and(|row| {
        let mut awaited = row.spec.after.iter().chain(&row.spec.life.after_one);
        matches!(row.job.phase, Phase::Waiting { .. })
            && awaited.all(|after| !world.is_awaited(*after))
    })
}

/// Adds jobs that wait for nothing but jobs that are there.
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
            // One that is held may still end by what it waits for, and let others go on.
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

/// Adds the jobs that one waits for, and what these wait for.
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
