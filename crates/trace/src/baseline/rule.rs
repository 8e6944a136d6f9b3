//! The rules, and their names.

use std::fmt;
use std::str::FromStr;

/// A published rule by which jobs start, idealised.
///
/// Source: said with each. Where a publication leaves it open, rules are read such that a month of
/// Microsoft's Philly cluster (Jeon et al., USENIX ATC 2019) comes out as it is known to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The oldest first; nobody overtakes it.
    FifoStrict,
    /// The oldest first. When it does not fit, nodes are planned for it at the first moment at
    /// which it will, and others overtake it where they do not delay that.
    ///
    /// Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
    Easy,
    /// The oldest first; whoever fits overtakes those who do not.
    Greedy,
    /// The same, those of the fewest devices first.
    SmallFirst,
    /// The same, but whoever has waited an hour goes before those who have not, the oldest first;
    /// nobody overtakes it.
    ///
    /// Source: Valohai's description of its queue, taken by the letter.
    ValohaiBlocking,
    /// Those who run shortest first; whoever fits overtakes those who do not.
    ///
    /// Source: shortest job first with known run times, as an oracle; Hu et al., "Characterization
    /// and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters" (Helios), SC 2021.
    Sjf,
    /// Whoever has least GPU-time left runs; others are taken back for it.
    ///
    /// Source: shortest remaining service first; Gu et al., "Tiresias: A GPU Cluster Manager for
    /// Distributed Deep Learning", NSDI 2019, which compares with it.
    Srsf,
    /// Whoever has had least GPU-time runs, in levels that part at 1, 10 and 100 GPU-hours; others
    /// are taken back for it.
    ///
    /// Source: discretised two-dimensional least attained service; Gu et al., NSDI 2019.
    Tiresias,
}

impl Rule {
    /// All of them.
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

    /// How it is written.
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
            format!("there is no baseline {text:?}; there are {names}")
        })
    }
}
