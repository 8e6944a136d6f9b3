//! Why preset `fair` gives another result than `kai` in a case.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Why a job has another result with `fair` than with `kai`: rules of scheduling.md A′, B and E.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Explanation {
    /// It starts on another node: the rules for placement differ.
    Elsewhere,
    /// `kai` gives it GPUs that another project uses within its guarantee.
    WithinGuarantee,
    /// Guarantees exceed the capacity, and count in part.
    ScaledGuarantees,
    /// `kai` moves running jobs for it.
    NothingMoved,
    /// A job of its project with fewer GPUs goes first.
    SmallerFirst,
    /// The rank of a project does not depend on its next job.
    WithoutNextJob,
    /// Other victims: `fair` chooses the project furthest over its share, and the least lost work.
    OtherVictims,
    /// `fair` finds a victim that `kai` misses, because it considers all legal victims.
    LegalVictimFound,
    /// A job before it has a planned start on this capacity.
    KeptForPlanned,
    /// It is not preemptible, so it can't borrow.
    NeverLent,
    /// A reclaim must not bring its beneficiary above its share.
    ShareKept,
    /// The job requests no resource that any project is guaranteed.
    NotPromised,
    /// Jobs within their project's share go before jobs that borrow.
    EntitledFirst,
    /// `kai` allocates nothing on a node where a foreign process uses a part of a GPU.
    BesideUnmanaged,
    /// A gang that loses a task is evicted at once, as a whole.
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
            Self::Elsewhere => "the same jobs start, on another node (B, placement)",
            Self::WithinGuarantee => "another project has the GPUs within its guarantee (E3)",
            Self::ScaledGuarantees => {
                "guarantees exceed the capacity, so each counts in part (A′4)"
            }
            Self::NothingMoved => "only jobs that allow it are moved (A′6)",
            Self::SmallerFirst => "in a project, jobs with fewer GPUs go first (B)",
            Self::WithoutNextJob => "the rank of a project does not depend on its next job (A′9)",
            Self::OtherVictims => {
                "the victim is furthest over its share and loses the least work (A′2)"
            }
            Self::LegalVictimFound => "all legal victims are considered (A′2)",
            Self::KeptForPlanned => "a planned start holds the capacity (A′3)",
            Self::NeverLent => "non-preemptible jobs can't borrow (A7)",
            Self::NotPromised => "capacity that no project is guaranteed is not reclaimed (A′2)",
            Self::EntitledFirst => "projects within their share go before those that borrow (A′9)",
            Self::AsAWhole => "a gang that loses a task is evicted as a whole, at once (A10)",
            Self::BesideUnmanaged => {
                "a foreign process on one MIG instance does not block the others (A′5)"
            }
            Self::ShareKept => "a project reclaims at most its share (E4)",
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Lists the jobs with other results, by explanation.
#[must_use]
pub fn told(reasons: &BTreeMap<String, Explanation>) -> Vec<String> {
    let distinct: BTreeSet<Explanation> = reasons.values().copied().collect();
    let line = |reason: Explanation| {
        let jobs = reasons.iter().filter(|(_, it)| **it == reason).map(|(job, _)| job.as_str());
        format!("{reason}: {}", jobs.collect::<Vec<_>>().join(", "))
    };
    distinct.into_iter().map(line).collect()
}
