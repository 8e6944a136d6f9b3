//! The points of a device's chart that belong to one job alone. Pure.

use std::collections::BTreeMap;

use gpool_history::{Minute, Point, Span, Step};
use gpool_model::{DeviceUuid, Timestamp};

use super::grid::Grid;

/// In milliseconds.
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
/// In minutes.
const HOUR: u64 = 60;

/// The devices that a job had alone, by start and end of that time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tenure {
    pub held: BTreeMap<(Timestamp, Timestamp), Vec<DeviceUuid>>,
    /// Whether the minutes of that time are still stored.
    pub has_minutes: bool,
}

impl Tenure {
    /// The start and the end of all times; `None` without a device.
    #[must_use]
    pub fn range(&self) -> Option<(Timestamp, Timestamp)> {
        let first = self.held.keys().map(|(from, _)| *from).min()?;
        Some((first, self.held.keys().map(|(_, to)| *to).max()?))
    }

    /// The stored minutes that are completely within a time. With points of hours, and where only
    /// hours are stored, it is whole hours.
    #[must_use]
    pub fn whole(&self, (from, to): (Timestamp, Timestamp), step: Step) -> Span {
        let is_hours = !self.has_minutes || u64::from(step.minutes()) >= HOUR;
        let unit = if is_hours { HOUR } else { 1 };
        let minute = |units: u64| Minute::new(u32::try_from(units * unit).unwrap_or(u32::MAX));
        let first = minute(from.get().div_ceil(unit * MINUTE));
        Span { from: first, to: minute(to.get() / (unit * MINUTE)).max(first) }
    }

    /// Puts points of whole minutes on a grid: each value where the grid expects it.
    #[must_use]
    pub fn on_grid(grid: &Grid, whole: Span, points: &[Option<Point>]) -> Vec<Option<Point>> {
        let step = u64::from(grid.step.minutes());
        let number = |minute: Minute| u64::from(minute.number()) / step;
        let skipped = number(whole.from).saturating_sub(number(grid.span.from));
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(grid.n_points.max(1));
        std::iter::repeat_n(None, skipped).chain(points.iter().copied()).collect()
    }
}

/// Samples of a time. A sample has the full second before it was taken, and the driver reports the
/// second before that, so those of the first and the last second belong to other jobs too.
pub fn within<T>(
    samples: Vec<(Timestamp, T)>,
    (from, to): (Timestamp, Timestamp),
) -> Vec<(Timestamp, T)> {
    let is_within = |at: Timestamp| {
        at.get() >= from.get().div_ceil(SECOND) * SECOND + SECOND && at.get() + SECOND <= to.get()
    };
    samples.into_iter().filter(|(at, _)| is_within(*at)).collect()
}
