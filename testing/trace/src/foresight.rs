//! Forecasts while a trace is played, and their results: made and calibrated as a server does.

use gpool_control::forecast::{self, Calibrator, ForecastInput};
use gpool_model::{JobId, Millis, Phase, Timestamp};
use gpool_world::{Snapshot, World};

/// The first forecast of a job, and its actual start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foretold {
    /// When the forecast was made.
    pub at: Timestamp,
    /// The p10 of the start.
    pub p10: Timestamp,
    /// The median of the start.
    pub p50: Timestamp,
    /// The p90 of the start.
    pub p90: Timestamp,
    /// The actual start.
    pub started_at: Timestamp,
}

/// Makes the forecasts.
pub(crate) struct Foresight {
    every: Millis,
    /// The time of the next forecast.
    pub next: Timestamp,
    learnt: Calibrator,
}

impl Foresight {
    pub fn new(every: Millis, now: Timestamp) -> Self {
        Self { every, next: now.after(every), learnt: Calibrator::default() }
    }

    /// Makes a forecast if one is due.
    pub fn look(&mut self, world: &World, now: Timestamp) {
        if now < self.next {
            return;
        }
        self.next = now.after(self.every);
        let waits = |id: JobId| {
            world.job(id).is_some_and(|row| matches!(row.job.phase, Phase::Pending { .. }))
        };
        self.learnt.retain_forecasts(waits);
        let part = ForecastInput::of(&Snapshot { world, now }, forecast::JOBS_MAX, None);
        let made = forecast::forecast(&part, forecast::JOBS_MAX, &self.learnt);
        for (id, eta) in &made.etas {
            if let (Some(row), Some(lead)) = (part.excerpt.jobs.get(id), made.leads.get(id)) {
                self.learnt.record_forecast((*id, row.job.version), (eta, *lead), now);
            }
        }
    }

    /// Compares a start with its forecast, if there was one.
    pub fn started(&mut self, job: JobId, at: Timestamp) -> Option<Foretold> {
        let told = self.learnt.first_forecasts.get(&job).copied()?;
        self.learnt.started(job, at);
        let (p10, p50, p90) = (told.p10, told.p50, told.p90);
        Some(Foretold { at: told.at, p10, p50, p90, started_at: at })
    }
}
