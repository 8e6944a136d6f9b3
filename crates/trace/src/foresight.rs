//! Forecasts while a trace is played, and what came of them: made as a server makes them, by what
//! was learnt from those before.

use gpool_control::forecast::{self, Learnt, Part};
use gpool_model::{JobId, Millis, Phase, Timestamp};
use gpool_world::{Snapshot, World};

/// What was forecast of a job when that was first done, and when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foretold {
    /// When it was forecast.
    pub at: Timestamp,
    /// Before which it would hardly start.
    pub p10: Timestamp,
    /// As likely earlier as later.
    pub p50: Timestamp,
    /// After which it would hardly start.
    pub p90: Timestamp,
    /// When it did.
    pub started_at: Timestamp,
}

/// Who forecasts.
pub(crate) struct Foresight {
    every: Millis,
    /// When next.
    pub next: Timestamp,
    learnt: Learnt,
}

impl Foresight {
    pub fn new(every: Millis, now: Timestamp) -> Self {
        Self { every, next: now.after(every), learnt: Learnt::default() }
    }

    /// Forecasts, if it is time to.
    pub fn look(&mut self, world: &World, now: Timestamp) {
        if now < self.next {
            return;
        }
        self.next = now.after(self.every);
        let waits = |id: JobId| {
            world.job(id).is_some_and(|row| matches!(row.job.phase, Phase::Pending { .. }))
        };
        self.learnt.keep_told(waits);
        let part = Part::of(&Snapshot { world, now }, forecast::JOBS_MAX, None);
        let made = forecast::forecast(&part, forecast::JOBS_MAX, &self.learnt);
        for (id, eta) in &made.etas {
            if let (Some(row), Some(lead)) = (part.excerpt.jobs.get(id), made.leads.get(id)) {
                self.learnt.tell((*id, row.job.version), (eta, *lead), now);
            }
        }
    }

    /// Holds a start against what was forecast of it, if anything was.
    pub fn started(&mut self, job: JobId, at: Timestamp) -> Option<Foretold> {
        let told = self.learnt.told.get(&job).copied()?;
        self.learnt.started(job, at);
        let (p10, p50, p90) = (told.p10, told.p50, told.p90);
        Some(Foretold { at: told.at, p10, p50, p90, started_at: at })
    }
}
