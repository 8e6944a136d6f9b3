//! Preemptive rules: each minute they choose the running jobs by attained or remaining GPU-time.

use std::collections::BTreeSet;

use gpool_model::{GpuTime, MilliGpu, Millis, Timestamp};

use super::course::{Course, Live};
use crate::jobs::EPOCH;

/// The service that the rule compares; less goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// The remaining service, without repeated work.
    Left,
    /// The attained service, repeated work included, in levels.
    Attained,
}

/// The time between decisions.
const TICK: Millis = Millis::from_mins(1);
/// The hours of one device at which a job reaches the next level.
const LEVELS: [u64; 3] = [1, 10, 100];

/// The decider with its next decision.
pub(super) struct ByService {
    service: Service,
    /// The earliest time of the next decision.
    // Invariant: a whole number of ticks after the begin.
    next: Timestamp,
}

/// A job at the time of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// Its attained or remaining service.
    service: u64,
    /// Among equal jobs, running ones come first, so that no job is preempted for an equal one.
    waits: bool,
    /// Then the order of submission.
    id: u64,
    n_gpus: u32,
}

/// The jobs to run and the others, as if all devices were on one node.
#[derive(Default)]
struct Choice {
    chosen: Vec<Standing>,
    others: Vec<Standing>,
}

impl ByService {
    /// The first decision comes at once.
    pub fn new(service: Service) -> Self {
        Self { service, next: EPOCH }
    }

    /// Returns the next tick if any job waits.
    pub fn next_change(&self, course: &Course) -> Option<Timestamp> {
        let since = course.now.since(EPOCH);
        let n_ticks = since.div_ceil(TICK.get()).get();
        let tick = EPOCH.after(Millis::new(n_ticks.saturating_mul(TICK.get())));
        (course.n_waiting() > 0).then_some(self.next.max(tick))
    }

    /// Starts the chosen jobs and preempts others for them; the remaining jobs start where they
    /// fit.
    pub fn decide(&mut self, course: &mut Course) {
        if self.next_change(course) != Some(course.now) {
            return;
        }
        self.next = course.now.after(TICK);
        let choice = self.choose(course);
        // The running ones; the last of them is preempted first.
        let mut others = choice.others.iter().filter(|job| !job.waits).collect::<Vec<_>>();
        for job in choice.chosen.iter().filter(|job| job.waits) {
            // If the job still does not fit after all of them are preempted, they stay preempted:
            // most resume at once, below, and repeat a little work.
            while !start(course, *job)
                && let Some(last) = others.pop()
            {
                course.take_back(last.id);
            }
        }
        let mut full = BTreeSet::new();
        for job in choice.chosen.iter().chain(&choice.others) {
            if course.places.are_full() {
                break;
            }
            let waits = course.live().get(&job.id).is_some_and(|job| !job.runs());
            if waits && !full.contains(&job.n_gpus) && !start(course, *job) {
                full.insert(job.n_gpus);
            }
        }
    }

    /// Chooses the first jobs in order, as many as have enough devices in total. Repeated work does
    /// not count as remaining: otherwise two jobs would preempt each other for ever if it takes
    /// longer than a tick.
    fn choose(&self, course: &Course) -> Choice {
        let mut all = Vec::with_capacity(course.live().len());
        let mut choice = Choice::default();
        let mut n_left = course.places.n_all();
        for (id, job) in course.live().iter().filter(|(_, job)| job.n_gpus > 0) {
            let (service, waits) = (self.service_of(job, course.now), !job.runs());
            let standing = Standing { service, waits, id: *id, n_gpus: job.n_gpus };
            all.push(standing);
        }
        all.sort_unstable();
        for job in all {
            if let Some(left) = n_left.checked_sub(u64::from(job.n_gpus)) {
                n_left = left;
                choice.chosen.push(job);
            } else {
                choice.others.push(job);
            }
        }
        choice
    }

    fn service_of(&self, job: &Live, now: Timestamp) -> u64 {
        let of = |span| GpuTime::of(MilliGpu::from_devices(job.n_gpus), span).get();
        match self.service {
            Service::Left => of(job.left(now)),
            Service::Attained => {
                let had = of(job.had(now));
                LEVELS.into_iter().filter(|hours| had >= hours * GpuTime::HOUR.get()).count() as u64
            }
        }
    }
}

/// Starts a waiting job if it fits.
fn start(course: &mut Course, job: Standing) -> bool {
    let parts = course.places.fit(job.n_gpus, &BTreeSet::new());
    if let Some(parts) = &parts {
        course.start(job.id, parts);
    }
    parts.is_some()
}
