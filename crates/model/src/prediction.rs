//! Predictions of run times from past runs of similar jobs. A prediction is displayed and used for
//! planning; it never ends a job.

use serde::{Deserialize, Serialize};

use crate::id::ProjectName;
use crate::job::JobSpec;
use crate::unit::{Millis, Timestamp};

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
    /// When the last of them ended.
    pub last_ended_at: Timestamp,
}

impl PastRuns {
    /// The number of runs that are stored.
    pub const KEPT: usize = 20;

    /// A record without runs.
    #[must_use]
    pub fn none(like: Likeness) -> Self {
        Self { like, lengths: Vec::new(), last_ended_at: Timestamp::ZERO }
    }

    /// Adds a run.
    pub fn add(&mut self, length: Millis, ended_at: Timestamp) {
        if self.lengths.len() >= Self::KEPT {
            self.lengths.drain(..=self.lengths.len() - Self::KEPT);
        }
        self.lengths.push(length);
        self.last_ended_at = self.last_ended_at.max(ended_at);
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
