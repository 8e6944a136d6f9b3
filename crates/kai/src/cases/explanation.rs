//! Why a case comes out otherwise by preset `fair` than by `kai`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Why a job fares otherwise by `fair` than by `kai`: lines of scheduling.md A′, B and E.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Explanation {
    /// It has the same, elsewhere: places are chosen by other rules.
    Elsewhere,
    /// By `kai` it gets what another holds within its guarantee.
    WithinGuarantee,
    /// Guarantees exceed what there is, and count in part.
    ScaledGuarantees,
    /// By `kai` running jobs are moved for it.
    NothingMoved,
    /// A job of its own project goes first that asks for fewer GPUs.
    SmallerFirst,
    /// Projects are ranked without their next job.
    WithoutNextJob,
    /// Other victims: `fair` takes the project furthest over its share, with the least loss so far.
    OtherVictims,
    /// What `kai` gave up is found: every legal victim is looked at.
    LegalVictimFound,
    /// The room is kept for one that goes before it and has a planned start.
    KeptForPlanned,
    /// It is not preemptible, and so is never lent anything.
    NeverLent,
    /// A reclaim must not bring its beneficiary above its share.
    ShareKept,
    /// The job requests no resource that any project is guaranteed.
    NotPromised,
    /// Jobs within their project's share go before jobs that borrow.
    EntitledFirst,
    /// By `kai` nothing of a node is given out on which others use any part of a GPU.
    BesideUnmanaged,
    /// A gang of which a part is lost goes at once, all of it.
    AsAWhole,
}

impl Explanation {
    /// All, in the order of the report.
    pub const ALL: [Self; 15] = [
        Self::Elsewhere,
        Self::WithinGuarantee,
        Self::ScaledGuarantees,
        Self::NothingMoved,
        Self::SmallerFirst,
        Self::WithoutNextJob,
        Self::OtherVictims,
        Self::LegalVictimFound,
        Self::KeptForPlanned,
        Self::NeverLent,
        Self::ShareKept,
        Self::NotPromised,
        Self::EntitledFirst,
        Self::BesideUnmanaged,
        Self::AsAWhole,
    ];

    /// In words, with the line of the rules.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Elsewhere => "the same on another node (B, placement)",
            Self::WithinGuarantee => "another holds it within its guarantee (E3)",
            Self::ScaledGuarantees => "more is guaranteed than there is, and counts in part (A′4)",
            Self::NothingMoved => "nothing is moved that has not agreed to it (A′6)",
            Self::SmallerFirst => "fewer GPUs go first inside a project (B)",
            Self::WithoutNextJob => "projects are ranked without their next job (A′9)",
            Self::OtherVictims => "furthest over its share and least lost goes (A′2)",
            Self::LegalVictimFound => "every legal victim is looked at (A′2)",
            Self::KeptForPlanned => "the room is kept for a planned start (A′3)",
            Self::NeverLent => "what can't be taken back is lent nothing (A7)",
            Self::NotPromised => "nothing is taken back of what nobody is promised (A′2)",
            Self::EntitledFirst => "who is within its share goes before who borrows (A′9)",
            Self::AsAWhole => "a gang that has lost a task goes as a whole, at once (A10)",
            Self::BesideUnmanaged => "each instance is a GPU, and others have another one (A′5)",
            Self::ShareKept => "nobody takes back more than its share (E4)",
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Names of the cases' jobs that differ, to be told.
#[must_use]
pub fn told(reasons: &BTreeMap<String, Explanation>) -> Vec<String> {
    let distinct: BTreeSet<Explanation> = reasons.values().copied().collect();
    let line = |reason: Explanation| {
        let jobs = reasons.iter().filter(|(_, it)| **it == reason).map(|(job, _)| job.as_str());
        format!("{reason}: {}", jobs.collect::<Vec<_>>().join(", "))
    };
    distinct.into_iter().map(line).collect()
}
