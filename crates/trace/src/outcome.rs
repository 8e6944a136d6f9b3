//! What came of a trace: of each job, and of all.

use std::sync::Arc;

use gpool_model::{MilliGpu, Millis, Refusal, Timestamp};

use crate::foresight::Foretold;

/// A run of a job, or the part of it until it was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// When it started.
    pub from: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// Its devices: number of the node, and index there.
    pub devices: Vec<(u32, u32)>,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Its user.
    pub owner: Arc<str>,
    /// All of its runs.
    pub runs: Vec<Ran>,
    /// When it came.
    pub submitted_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Its run time, without repeated work.
    pub duration: Millis,
    /// How much it asked for.
    pub gpus: MilliGpu,
}

impl Played {
    /// The same as a number of devices, which may be a part of one.
    #[must_use]
    pub fn n_gpus(&self) -> f64 {
        self.gpus.get() as f64 / MilliGpu::DEVICE.get() as f64
    }

    /// How long it did not run since it came.
    #[must_use]
    pub fn wait(&self) -> Millis {
        self.ended_at.since(self.submitted_at).saturating_sub(self.duration)
    }
}

/// What came of a trace.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Of each job, ordered by end.
    pub jobs: Vec<Played>,
    /// How many were refused, and why the first one was.
    pub n_refused: u64,
    /// Why.
    pub refusal: Option<Refusal>,
    /// How many wait for ever: nothing that will happen lets them start.
    pub n_stuck: u64,
    /// How many were ended for good when they were taken back, before they had run as long as they
    /// were to.
    pub n_cut: u64,
    /// How often a job was taken back.
    pub n_taken_back: u64,
    /// Device-milliseconds given out until the last job came.
    pub busy: u128,
    /// When the first and the last job came.
    pub came: Option<(Timestamp, Timestamp)>,
    /// The first forecast of each job that waited, ordered by start.
    pub forecasts: Vec<Foretold>,
}
