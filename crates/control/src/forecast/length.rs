//! Estimates how long jobs will hold their devices: short, median and long. The basis is, in this
//! order: run times of jobs like it, the time limit, the time that the job has run so far.

use gpool_model::{AllocationState, Basis, Millis, Phase, Prediction, Timestamp};
use gpool_world::JobRow;

/// How early or late jobs end in a simulated course.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// As early as such jobs do: one in ten is earlier.
    Early,
    /// The median.
    Middle,
    /// As late as such jobs do: one in ten is later.
    Late,
}

impl Pace {
    /// All three, the earliest first.
    pub const ALL: [Self; 3] = [Self::Early, Self::Middle, Self::Late];
}

/// The basis of an estimated length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LengthSource {
    /// The time limit: users ask for more than they need.
    Limit,
    /// The run times of jobs like it.
    LikeRuns { n_runs: u32 },
    /// The time that it has run so far, without any better basis.
    Elapsed,
    /// The order to end.
    Stopping,
}

impl LengthSource {
    /// Returns the basis to report for an estimate from this source.
    #[must_use]
    pub fn basis(self) -> Basis {
        match self {
            Self::Limit | Self::Stopping => Basis::Limit,
            Self::LikeRuns { .. } | Self::Elapsed => Basis::Predicted,
        }
    }
}

/// How long a job will hold its devices: from now if it has started, else from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    by_pace: [Millis; 3],
    pub source: LengthSource,
}

impl Length {
    /// The median length of a job without any basis.
    pub const UNKNOWN: Millis = Prediction::USUAL;
    /// The spread of jobs known only to have run for some time. One in ten ends within a ninth of
    /// that time, half within the same time again, and nine in ten within nine times it.
    const SPREAD: u64 = 9;

    /// Returns a length that is known exactly.
    #[must_use]
    pub fn exactly(length: Millis, source: LengthSource) -> Self {
        Self { by_pace: [length; 3], source }
    }

    /// Estimates the length of a job at a moment.
    #[must_use]
    pub fn of(row: &JobRow, prediction: Option<Prediction>, now: Timestamp) -> Self {
        let elapsed = match &row.job.phase {
            Phase::Stopping { .. } => return Self::of_stopping(row, now),
            Phase::Running { .. } | Phase::Paused { .. } => row.job.ran(now),
            Phase::Starting { since, .. } => now.since(*since),
            Phase::Held { .. }
            | Phase::Waiting { .. }
            | Phase::Pending { .. }
            | Phase::Underway { .. }
            | Phase::Ended(_) => Millis::ZERO,
        };
        Self::remaining(elapsed, row.spec.time_limit, row.spec.grace, prediction)
    }

    fn remaining(
        elapsed: Millis,
        limit: Option<Millis>,
        grace: Millis,
        prediction: Option<Prediction>,
    ) -> Self {
        let left = limit.map(|limit| limit.saturating_sub(elapsed));
        let most = left.map_or(Millis::MAX, |left| left.saturating_add(grace));
        let (lengths, source) = match (prediction, left) {
            (Some(like), left) => {
                let mut lengths = Self::like(like, elapsed);
                // After few runs, the next one may well use up its limit.
                let late = left.filter(|_| like.n_runs < Prediction::FEW);
                lengths[2] = lengths[2].max(late.unwrap_or_default());
                (lengths, LengthSource::LikeRuns { n_runs: like.n_runs })
            }
            (None, Some(left)) => {
                ([left.div_floor(4), left.div_floor(2), left], LengthSource::Limit)
            }
            (None, None) => (Self::unknown(elapsed.max(Self::UNKNOWN)), LengthSource::Elapsed),
        };
        Self { by_pace: lengths.map(|length| length.min(most)), source }
    }

    /// Estimates the length of a job that has not started.
    #[must_use]
    pub fn whole(limit: Option<Millis>, grace: Millis, prediction: Option<Prediction>) -> Self {
        Self::remaining(Millis::ZERO, limit, grace, prediction)
    }

    /// Returns the time left by the run times of jobs like it. With few runs the ends are drawn
    /// apart: by a factor of four for one run, and by a seventh for twenty.
    fn like(like: Prediction, elapsed: Millis) -> [Millis; 3] {
        const FEW: u64 = 3;
        let n_runs = u64::from(like.n_runs).max(1);
        let widened = |length: Millis, times: u64, by: u64| {
            length.checked_mul(times).map_or(Millis::MAX, |length| length.div_ceil(by))
        };
        let whole = [
            widened(like.p10, n_runs, n_runs + FEW),
            like.p50,
            widened(like.p90, n_runs + FEW, n_runs),
        ];
        let past = Self::unknown(elapsed);
        let mut left = [Millis::ZERO; 3];
        for (ix, whole) in whole.into_iter().enumerate() {
            left[ix] =
                whole.checked_sub(elapsed).filter(|left| !left.is_zero()).unwrap_or(past[ix]);
        }
        left.sort_unstable();
        left
    }

    fn unknown(elapsed: Millis) -> [Millis; 3] {
        let late = elapsed.checked_mul(Self::SPREAD).unwrap_or(Millis::MAX);
        [elapsed.div_floor(Self::SPREAD), elapsed, late]
    }

    fn of_stopping(row: &JobRow, now: Timestamp) -> Self {
        let deadlines = row.job.phase.allocations().iter().map(|held| match held.state {
            AllocationState::Releasing { deadline } => deadline.since(now),
            _ => row.spec.grace,
        });
        let most = deadlines.max().unwrap_or_default();
        Self { by_pace: [Millis::ZERO, most.div_floor(2), most], source: LengthSource::Stopping }
    }

    #[must_use]
    pub fn at(&self, pace: Pace) -> Millis {
        match pace {
            Pace::Early => self.by_pace[0],
            Pace::Middle => self.by_pace[1],
            Pace::Late => self.by_pace[2],
        }
    }
}
