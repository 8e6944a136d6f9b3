//! Rules by which jobs are taken back for others: each minute it is chosen anew who runs, by the
//! GPU-time that jobs have had or have left.

use std::collections::BTreeSet;

use gpool_model::{GpuTime, MilliGpu, Millis, Timestamp};

use super::course::{Course, Live};
use crate::jobs::EPOCH;

/// What it goes by; less goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// What a job has left, without what it does again.
    Left,
    /// What it has had, with what it did again, in levels.
    Attained,
}

/// It decides so often.
const TICK: Millis = Millis::from_mins(1);
/// Hours of one device at which a job comes to the next level.
const LEVELS: [u64; 3] = [1, 10, 100];

/// Who decides, and when next.
pub(super) struct ByService {
    service: Service,
    /// No decision is made before.
    // Invariant: a number of ticks after the beginning.
    next: Timestamp,
}

/// A job as it stands when it is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// What it has had or has left.
    service: u64,
    /// Of equals those first who run, so that nobody is taken back for their like.
    waits: bool,
    /// Then whoever came first.
    id: u64,
    n_gpus: u32,
}

/// Who runs and who does not, if all devices were on one node.
#[derive(Default)]
struct Choice {
    chosen: Vec<Standing>,
    others: Vec<Standing>,
}

impl ByService {
    /// It decides at once.
    pub fn new(service: Service) -> Self {
        Self { service, next: EPOCH }
    }

    /// The next tick, where anybody waits.
    pub fn next_change(&self, course: &Course) -> Option<Timestamp> {
        let since = course.now.since(EPOCH);
        let n_ticks = since.div_ceil(TICK.get()).get();
        let tick = EPOCH.after(Millis::new(n_ticks.saturating_mul(TICK.get())));
        (course.n_waiting() > 0).then_some(self.next.max(tick))
    }

    /// Starts those who are chosen, and takes others back for them; who is left starts where there
    /// is room.
    pub fn decide(&mut self, course: &mut Course) {
        if self.next_change(course) != Some(course.now) {
            return;
        }
        self.next = course.now.after(TICK);
        let choice = self.choose(course);
        // Those who run, the last of which goes first.
        let mut others = choice.others.iter().filter(|job| !job.waits).collect::<Vec<_>>();
        for job in choice.chosen.iter().filter(|job| job.waits) {
            // Where it still does not fit when all of them are gone, they are gone all the same:
            // most go on at once, below, and do a little again.
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

    /// Those run who stand first, as many as have enough devices in sum. What is done again is not
    /// left to do, or two would go for each other for ever where that takes longer than a tick.
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

/// Starts a job that waits, if it fits.
fn start(course: &mut Course, job: Standing) -> bool {
    let parts = course.places.fit(job.n_gpus, &BTreeSet::new());
    if let Some(parts) = &parts {
        course.start(job.id, parts);
    }
    parts.is_some()
}
