//! How long jobs like one another ran: what is remembered of them, and what it says of the next.
//! A prediction is shown and planned with; nothing is ever ended by it.

use serde::{Deserialize, Serialize};

use crate::id::ProjectName;
use crate::job::JobSpec;
use crate::unit::{Millis, Timestamp};

/// What jobs have in common that are taken to run about as long as each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Likeness {
    /// Whose jobs.
    pub uid: u32,
    /// Who is charged.
    pub project: ProjectName,
    /// Their name without digits: `train-17` and `train-18` are alike.
    pub stem: String,
}

impl Likeness {
    /// Longest stem, in bytes; what follows does not count.
    const STEM_MAX: usize = 64;

    /// What that job has in common with others.
    #[must_use]
    pub fn of(spec: &JobSpec) -> Self {
        Self::named(spec.owner.uid, spec.project.clone(), &spec.name)
    }

    /// What a job of that name would have in common with others.
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

    /// Where what is remembered of them is kept.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}:{}:{}", self.uid, self.project, self.stem)
    }

    /// Of which that is the key.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        let mut parts = key.splitn(3, ':');
        let (uid, project, stem) = (parts.next()?, parts.next()?, parts.next()?);
        let project = ProjectName::new(project);
        Some(Self { uid: uid.parse().ok()?, project, stem: stem.to_owned() })
    }
}

/// How long the last jobs of one likeness ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRuns {
    /// Which jobs.
    pub like: Likeness,
    /// How long each ran, the oldest first.
    pub lengths: Vec<Millis>,
    /// When the last of them ended.
    pub last_ended_at: Timestamp,
}

impl PastRuns {
    /// So many runs are remembered.
    pub const KEPT: usize = 20;

    /// Nothing has run yet.
    #[must_use]
    pub fn none(like: Likeness) -> Self {
        Self { like, lengths: Vec::new(), last_ended_at: Timestamp::ZERO }
    }

    /// Remembers one more.
    pub fn add(&mut self, length: Millis, ended_at: Timestamp) {
        if self.lengths.len() >= Self::KEPT {
            self.lengths.drain(..=self.lengths.len() - Self::KEPT);
        }
        self.lengths.push(length);
        self.last_ended_at = self.last_ended_at.max(ended_at);
    }

    /// What they say of the next; `None` without any. One or two runs say little, so that they
    /// never predict less than they would together with runs of [`Prediction::USUAL`] for the
    /// missing ones: a job that failed after a second does not predict that the next one ends at
    /// once.
    #[must_use]
    pub fn prediction(&self) -> Option<Prediction> {
        let mut sorted = self.lengths.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        // The nearest rank, halves rounded up.
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

/// How long a job is likely to run, from how long the last ones like it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// One in ten ran no longer.
    pub p10: Millis,
    /// Half of them ran no longer. What plans count with.
    pub p50: Millis,
    /// Nine in ten ran no longer.
    pub p90: Millis,
    /// From how many runs that is known.
    pub n_runs: u32,
}

impl Prediction {
    /// Fewer runs than this say little.
    pub const FEW: u32 = 3;
    /// How long a job without history runs.
    pub const USUAL: Millis = Millis::from_hours(1);
}
