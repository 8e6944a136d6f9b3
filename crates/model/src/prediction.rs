//! Predictions of run times and of GPU memory from past runs of similar jobs. They are displayed,
//! and run times are used for planning; they never end a job.

use serde::{Deserialize, Serialize};

use crate::id::ProjectName;
use crate::job::{GpuUsage, JobSpec};
use crate::unit::{Bytes, Millis, Timestamp};

/// The key of similar jobs, which are assumed to run about equally long.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Likeness {
    /// The user of the jobs.
    pub uid: u32,
    /// The project that is charged.
    pub project: ProjectName,
    /// The job name without digits: `train-17` and `train-18` are similar.
    pub stem: String,
}

impl Likeness {
    /// The longest stem, in bytes; the rest of the name is ignored.
    const STEM_MAX: usize = 64;

    /// The key of a job.
    #[must_use]
    pub fn of(spec: &JobSpec) -> Self {
        Self::named(spec.owner.uid, spec.project.clone(), &spec.name)
    }

    /// The key of a job with this name.
    #[must_use]
    pub fn named(uid: u32, project: ProjectName, name: &str) -> Self {
        let mut stem = String::new();
        for letter in name.chars().filter(|letter| !letter.is_ascii_digit()) {
            if stem.len() + letter.len_utf8() > Self::STEM_MAX {
                break;
            }
            stem.push(letter);
        }
        Self { uid, project, stem }
    }

    /// The key of the record of past runs.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}:{}:{}", self.uid, self.project, self.stem)
    }

    /// Reads the key of a record.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        let mut parts = key.splitn(3, ':');
        let (uid, project, stem) = (parts.next()?, parts.next()?, parts.next()?);
        let project = ProjectName::new(project);
        Some(Self { uid: uid.parse().ok()?, project, stem: stem.to_owned() })
    }
}

/// The run times of the last jobs with one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRuns {
    /// The key of the jobs.
    pub like: Likeness,
    /// The run times, oldest first.
    pub lengths: Vec<Millis>,
    /// The GPU use of the last of them that had whole devices and were measured, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUsage>,
    /// When the last of them ended.
    pub last_ended_at: Timestamp,
}

/// The GPU memory that suffices for jobs of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnoughMemory {
    /// The number of past runs.
    pub n_runs: usize,
    /// The most memory that one of them used on one device.
    pub used: Bytes,
    /// The least memory of their devices.
    pub device: Bytes,
    /// The memory to request, in gibibytes.
    pub gib: u64,
}

/// The gibibytes that suffice for a job with this peak: 25 % more, since the next run may use a
/// little more.
#[must_use]
pub fn with_reserve(peak: Bytes) -> u64 {
    let peak = peak.get();
    peak.saturating_add(peak / 4).div_ceil(Bytes::from_gib(1).get()).max(1)
}

impl PastRuns {
    /// The number of runs that are stored.
    pub const RUNS_MAX: usize = 20;

    /// A record without runs.
    #[must_use]
    pub fn none(like: Likeness) -> Self {
        Self { like, lengths: Vec::new(), gpus: Vec::new(), last_ended_at: Timestamp::ZERO }
    }

    /// Adds a run.
    pub fn add(&mut self, length: Millis, ended_at: Timestamp) {
        if self.lengths.len() >= Self::RUNS_MAX {
            self.lengths.drain(..=self.lengths.len() - Self::RUNS_MAX);
        }
        self.lengths.push(length);
        self.last_ended_at = self.last_ended_at.max(ended_at);
    }

    /// Adds the GPU use of a run with whole devices.
    pub fn add_gpu(&mut self, usage: GpuUsage) {
        if self.gpus.len() >= Self::RUNS_MAX {
            self.gpus.drain(..=self.gpus.len() - Self::RUNS_MAX);
        }
        self.gpus.push(usage);
    }

    /// The GPU memory that suffices for the next run, if a part of a device does. `None` with fewer
    /// than [`Prediction::FEW`] measured runs, or if one of them used more than half of the memory
    /// or of the time of its device.
    #[must_use]
    pub fn enough_memory(&self) -> Option<EnoughMemory> {
        let is_light = |run: &GpuUsage| {
            run.memory_peak <= run.memory_limit.div_floor(2)
                && run.busy.get() <= run.measured.get() / 2
        };
        let n_runs = self.gpus.len();
        let is_known = u32::try_from(n_runs).is_ok_and(|n| n >= Prediction::FEW);
        if !is_known || !self.gpus.iter().all(is_light) {
            return None;
        }
        let used = self.gpus.iter().map(|run| run.memory_peak).max()?;
        let device = self.gpus.iter().map(|run| run.memory_limit).min()?;
        let gib = with_reserve(used);
        let suffices = Bytes::new(gib.saturating_mul(Bytes::from_gib(1).get())) < device;
        suffices.then_some(EnoughMemory { n_runs, used, device, gib })
    }

    /// The prediction for the next run; `None` without past runs. With fewer than
    /// [`Prediction::FEW`] runs, p50 and p90 are at least as long as if the missing runs had taken
    /// [`Prediction::USUAL`]: a job that failed after a second does not predict that the next one
    /// ends at once.
    #[must_use]
    pub fn prediction(&self) -> Option<Prediction> {
        let mut sorted = self.lengths.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        // The nearest rank; halves are rounded up.
        let quantile = |percent: usize| sorted[(last * percent + 50) / 100];
        let n_runs = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
        let widened = |length: Millis| {
            let n_missing = Prediction::FEW.saturating_sub(n_runs);
            let usual = Prediction::USUAL.get().saturating_mul(u64::from(n_missing));
            let sum = length.get().saturating_mul(u64::from(n_runs)).saturating_add(usual);
            length.max(Millis::new(sum.div_ceil(u64::from(n_runs.max(Prediction::FEW)))))
        };
        let p10 = quantile(10);
        Some(Prediction { p10, p50: widened(quantile(50)), p90: widened(quantile(90)), n_runs })
    }
}

/// The predicted run time of a job, from past runs of similar jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// One in ten runs was no longer.
    pub p10: Millis,
    /// Half of the runs were no longer. Plans use this value.
    pub p50: Millis,
    /// Nine in ten runs were no longer.
    pub p90: Millis,
    /// The number of past runs.
    pub n_runs: u32,
}

impl Prediction {
    /// Fewer runs than this are too few for a prediction of their own.
    pub const FEW: u32 = 3;
    /// The assumed run time of a job without history.
    pub const USUAL: Millis = Millis::from_hours(1);
}
