//! The times of a chart, and values at them: means of minutes, and within the last hour the samples
//! of agents. Pure.

use gpool_history::{Minute, Point, Span, Step};
use gpool_model::Timestamp;
use gpool_protocol::recent::RECENT;

use super::minute_of;

/// Steps below a minute, in seconds.
const FINE: [u64; 6] = [1, 2, 5, 10, 15, 30];
/// In milliseconds.
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
/// A sample counts until the next one, but not longer: agents take one each second.
const HOLDS: u64 = 10 * SECOND;

/// Times at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    pub start: Timestamp,
    /// The distance of the points in seconds.
    pub step_s: u64,
    pub n_points: usize,
    /// The minutes that the points cover.
    pub span: Span,
    /// The distance of the minutes to read.
    pub step: Step,
}

impl Grid {
    /// The smallest distance with at most `n_points` points. It is less than a minute only within
    /// the last hour, as agents keep their samples for so long.
    #[must_use]
    pub fn fitting(since: Timestamp, until: Timestamp, n_points: usize, now: Timestamp) -> Self {
        let n_max = u64::try_from(n_points.max(1)).unwrap_or(u64::MAX);
        let is_recent = now.since(since) <= RECENT;
        let of = |step_s: u64| {
            let step = step_s * SECOND;
            let first = since.get() / step * step;
            (first, until.min(now).get().saturating_sub(first).div_ceil(step))
        };
        let fine = FINE.into_iter().find(|step| is_recent && of(*step).1 <= n_max);
        if let Some(step_s) = fine {
            let (first, n) = of(step_s);
            let span = Span { from: minute_of(since), to: minute_of(until).after(1) };
            let (start, step) = (Timestamp::new(first), Step::MINUTE);
            let n_points = usize::try_from(n).unwrap_or(0);
            return Self { start, step_s, n_points, span, step };
        }
        Self::of_minutes(since, until, n_points)
    }

    /// The smallest distance of at least a minute with at most `n_points` points.
    #[must_use]
    pub fn of_minutes(since: Timestamp, until: Timestamp, n_points: usize) -> Self {
        let span = Span { from: minute_of(since), to: minute_of(until) };
        let step = Step::fitting(span, n_points);
        let start = span.from.number() / step.minutes() * step.minutes();
        Self {
            start: time_of(Minute::new(start)),
            step_s: u64::from(step.minutes()) * 60,
            n_points: step.n_points(span),
            span,
            step,
        }
    }

    /// Whether samples are needed.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.step_s < 60
    }

    /// The means at each point: of samples, oldest first, and before the minute of the first one of
    /// minutes, as they were read for [`Grid::span`] and [`Grid::step`].
    #[must_use]
    pub fn means(
        &self,
        minutes: &[Option<Point>],
        samples: &[(Timestamp, f64)],
    ) -> Vec<Option<f64>> {
        let mean = |point: &Option<Point>| point.map(|it| it.mean);
        if !self.is_fine() {
            let none = std::iter::repeat(None);
            return minutes.iter().map(mean).chain(none).take(self.n_points).collect();
        }
        let first_minute = time_of(self.span.from).get();
        let first = samples.first().map(|(at, _)| at.get());
        let (mut next, mut last) = (0, None);
        let mut found = Vec::with_capacity(self.n_points);
        for ix in 0..u64::try_from(self.n_points).unwrap_or(0) {
            let from = self.start.get() + ix * self.step_s * SECOND;
            let to = from + self.step_s * SECOND;
            let (mut sum, mut n) = (0.0, 0.0);
            while let Some((at, value)) = samples.get(next).filter(|(at, _)| at.get() < to) {
                last = Some((at.get(), *value));
                if at.get() >= from {
                    (sum, n) = (sum + value, n + 1.0);
                }
                next += 1;
            }
            let held = last.filter(|(at, _)| from.saturating_sub(*at) < HOLDS).map(|it| it.1);
            let minute = || {
                let ix = usize::try_from(from.saturating_sub(first_minute) / MINUTE).ok()?;
                mean(minutes.get(ix)?)
            };
            found.push(match first {
                _ if n > 0.0 => Some(sum / n),
                Some(first) if from >= first => held,
                // The minute of the first sample has values of after this point.
                Some(first) if from / MINUTE == first / MINUTE => None,
                _ => minute(),
            });
        }
        found
    }
}

/// The start of a minute.
#[must_use]
pub fn time_of(minute: Minute) -> Timestamp {
    Timestamp::new(u64::from(minute.number()) * MINUTE)
}
