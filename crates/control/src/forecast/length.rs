//! How long jobs will hold what they have, three times: as short as such jobs take, in the middle,
//! as long. What is known of a job decides, in this order: how long like ones ran, its time limit,
//! how long it has run so far.

use gpool_model::{AllocationState, Basis, Millis, Phase, Prediction, Timestamp};
use gpool_world::JobRow;

/// In which of the three ways jobs end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// As early as such jobs do: one in ten is earlier.
    Early,
    /// As likely earlier as later.
    Middle,
    /// As late as such jobs do: one in ten is later.
    Late,
}

impl Pace {
    /// All three, the earliest first.
    pub const ALL: [Self; 3] = [Self::Early, Self::Middle, Self::Late];
}

/// What a length was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Its time limit: users ask for more than they need.
    Limit,
    /// How long jobs like it ran.
    LikeRuns {
        /// How many of them.
        n_runs: u32,
    },
    /// How long it has run so far, for want of anything better.
    Elapsed,
    /// It was told to end.
    Stopping,
}

impl Source {
    /// What an estimate that rests on it is based on.
    #[must_use]
    pub fn basis(self) -> Basis {
        match self {
            Self::Limit | Self::Stopping => Basis::Limit,
            Self::LikeRuns { .. } | Self::Elapsed => Basis::Predicted,
        }
    }
}

/// How long a job will hold what it has: from now if it has begun, else from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    by_pace: [Millis; 3],
    /// What that was taken from.
    pub source: Source,
}

impl Length {
    /// A job of which nothing is known is taken to run for that long in the middle.
    pub const UNKNOWN: Millis = Prediction::USUAL;
    /// Among jobs of which nothing is known but that they have run for a time, one in ten ends
    /// within a ninth of that time, half within as much again, nine in ten within nine times it.
    const SPREAD: u64 = 9;

    /// A length that is known exactly.
    #[must_use]
    pub fn exactly(length: Millis, source: Source) -> Self {
        Self { by_pace: [length; 3], source }
    }

    /// That of a job, from what is known at a moment.
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
        Self::left(elapsed, row.spec.time_limit, row.spec.grace, prediction)
    }

    fn left(
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
                // After few runs the next one may well take as long as its limit lets it.
                let late = left.filter(|_| like.n_runs < Prediction::FEW);
                lengths[2] = lengths[2].max(late.unwrap_or_default());
                (lengths, Source::LikeRuns { n_runs: like.n_runs })
            }
            (None, Some(left)) => ([left.div_floor(4), left.div_floor(2), left], Source::Limit),
            (None, None) => (Self::unknown(elapsed.max(Self::UNKNOWN)), Source::Elapsed),
        };
        Self { by_pace: lengths.map(|length| length.min(most)), source }
    }

    /// That of a job that has not begun.
    #[must_use]
    pub fn whole(limit: Option<Millis>, grace: Millis, prediction: Option<Prediction>) -> Self {
        Self::left(Millis::ZERO, limit, grace, prediction)
    }

    /// What is left by how long like jobs ran. Few of them say little, so that the ends are
    /// drawn apart: fourfold by one run, by a seventh more by twenty.
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
        Self { by_pace: [Millis::ZERO, most.div_floor(2), most], source: Source::Stopping }
    }

    /// The length in one of the three ways.
    #[must_use]
    pub fn at(&self, pace: Pace) -> Millis {
        match pace {
            Pace::Early => self.by_pace[0],
            Pace::Middle => self.by_pace[1],
            Pace::Late => self.by_pace[2],
        }
    }
}
