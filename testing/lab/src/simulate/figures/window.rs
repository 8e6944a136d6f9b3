//! The time range of the figures, and its intervals.

use gpool_model::Timestamp;
use gpool_trace::queue::Outcome;

/// Seconds per hour.
pub const HOUR: f64 = 3_600.0;
/// Seconds per day.
pub const DAY: f64 = 24.0 * HOUR;

/// Usual lengths of an interval.
const STEPS: [f64; 14] = [
    1.0,
    10.0,
    60.0,
    300.0,
    600.0,
    1_800.0,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    7.0 * DAY,
];

/// The time range of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The submission of the first job.
    pub origin: Timestamp,
    /// Seconds until the last submission; after that the cluster drains.
    pub span: f64,
}

impl Window {
    /// The range of all jobs.
    #[must_use]
    pub fn of(played: &[(String, Outcome)]) -> Option<Self> {
        let came = || played.iter().filter_map(|(_, outcome)| outcome.came);
        let origin = came().map(|(first, _)| first).min()?;
        let last = came().map(|(_, last)| last).max()?;
        let ended = || played.iter().flat_map(|(_, it)| it.jobs.iter().map(|job| job.ended_at));
        // All jobs arrive at the same time.
        let last = if last > origin { last } else { ended().max()? };
        let span = last.since(origin).get() as f64 / 1000.0;
        Some(Self { origin, span: span.max(1.0) })
    }

    /// Seconds from the first job to a time.
    #[must_use]
    pub fn at(self, at: Timestamp) -> f64 {
        at.since(self.origin).get() as f64 / 1000.0
    }

    /// Divides the range into at most `n_most` intervals, each with its begin and end.
    #[must_use]
    pub fn parts(self, n_most: f64) -> Vec<(f64, f64)> {
        let fits = |step: &f64| self.span / step <= n_most;
        let step = STEPS.into_iter().find(fits).unwrap_or(self.span / n_most);
        self.steps(step)
    }

    /// Divides the range into intervals of this length; the last one may be shorter.
    #[must_use]
    pub fn steps(self, step: f64) -> Vec<(f64, f64)> {
        let mut parts = Vec::new();
        let mut from = 0.0;
        while from < self.span {
            parts.push((from, (from + step).min(self.span)));
            from += step;
        }
        parts
    }
}

/// The interval that contains a time; the end of the last one belongs to it.
#[must_use]
pub fn part_at(parts: &[(f64, f64)], at: f64) -> usize {
    parts.partition_point(|(_, to)| *to <= at).min(parts.len().saturating_sub(1))
}

/// Calls `add` with each interval that overlaps a time range, and with the overlap.
pub fn spread(parts: &[(f64, f64)], (from, to): (f64, f64), mut add: impl FnMut(usize, f64)) {
    let first = parts.partition_point(|(_, end)| *end <= from);
    for (ix, (start, end)) in parts.iter().enumerate().skip(first) {
        if *start >= to {
            break;
        }
        add(ix, to.min(*end) - from.max(*start));
    }
}
