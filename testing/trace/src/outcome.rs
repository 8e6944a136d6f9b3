//! The results of a trace: for each job, and for all together.

use std::sync::Arc;

use gpool_model::{MilliGpu, Millis, Refusal, Timestamp};

use crate::foresight::Foretold;

/// A run of a job, or the part of it up to an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// When it started.
    pub from: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// Its devices: number of the node, and index there.
    pub devices: Vec<(u32, u32)>,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Its user.
    pub owner: Arc<str>,
    pub runs: Vec<Ran>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Its run time, without repeated work.
    pub duration: Millis,
    /// The amount of GPUs that it asked for.
    pub gpus: MilliGpu,
}

impl Played {
    /// The same as a number of devices, which may be a part of one.
    #[must_use]
    pub fn n_gpus(&self) -> f64 {
        self.gpus.get() as f64 / MilliGpu::DEVICE.get() as f64
    }

    /// Returns its waiting time: the time since its submission without its run time.
    #[must_use]
    pub fn wait(&self) -> Millis {
        self.ended_at.since(self.submitted_at).saturating_sub(self.duration)
    }
}

/// The results of a trace.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The jobs, ordered by end.
    pub jobs: Vec<Played>,
    /// The number of refused jobs.
    pub n_refused: u64,
    /// The first refusal.
    pub refusal: Option<Refusal>,
    /// The number of jobs that wait for ever.
    pub n_stuck: u64,
    /// The number of evicted jobs that were ended for good before the end of their run time.
    pub n_cut: u64,
    /// The number of evictions.
    pub n_taken_back: u64,
    /// Device-milliseconds in use until the last job was submitted.
    pub busy: u128,
    /// When the first and the last job were submitted.
    pub came: Option<(Timestamp, Timestamp)>,
    /// The first forecast of each job that waited, ordered by start.
    pub forecasts: Vec<Foretold>,
}
