//! The rules, and their names.

use std::fmt;
use std::str::FromStr;

/// A published rule for starting jobs, idealised.
///
/// Each variant names its source. Where a publication leaves details open, they are chosen such
/// that a month of Microsoft's Philly cluster (Jeon et al., USENIX ATC 2019) gives the published
/// results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The oldest first; no job overtakes it.
    FifoStrict,
    /// The oldest first. If it does not fit, it gets a planned start at the first possible time,
    /// and other jobs backfill where they do not delay it.
    ///
    /// Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
    Easy,
    /// The oldest first; jobs that fit overtake jobs that do not.
    Greedy,
    /// The same, but the jobs with the fewest devices first.
    SmallFirst,
    /// The same, but jobs that have waited an hour come first, the oldest of them first, and no job
    /// overtakes them.
    ///
    /// Source: Valohai's description of its queue, taken literally.
    ValohaiBlocking,
    /// The shortest first; jobs that fit overtake jobs that do not.
    ///
    /// Source: shortest job first with known run times, as an oracle; Hu et al., "Characterization
    /// and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters" (Helios), SC 2021.
    Sjf,
    /// The jobs with the least remaining GPU-time run; others are preempted for them.
    ///
    /// Source: shortest remaining service first; Gu et al., "Tiresias: A GPU Cluster Manager for
    /// Distributed Deep Learning", NSDI 2019, which compares with it.
    Srsf,
    /// The jobs with the least attained GPU-time run, in levels with bounds at 1, 10 and 100
    /// GPU-hours; others are preempted for them.
    ///
    /// Source: discretised two-dimensional least attained service; Gu et al., NSDI 2019.
    Tiresias,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 8] = [
        Self::FifoStrict,
        Self::Easy,
        Self::Greedy,
        Self::SmallFirst,
        Self::ValohaiBlocking,
        Self::Sjf,
        Self::Srsf,
        Self::Tiresias,
    ];

    /// Returns the name of the rule.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FifoStrict => "fifo-strict",
            Self::Easy => "easy",
            Self::Greedy => "greedy",
            Self::SmallFirst => "small-first",
            Self::ValohaiBlocking => "valohai-blocking",
            Self::Sjf => "sjf",
            Self::Srsf => "srsf",
            Self::Tiresias => "tiresias",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|rule| rule.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no baseline {text:?}; the baselines are {names}")
        })
    }
}
