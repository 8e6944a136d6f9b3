//! Minutes, ranges and the steps of a chart.

/// Minutes of an hour.
pub const HOUR: u32 = 60;
/// Hours of a day.
pub const DAY: u32 = 24;

/// A minute of Unix time: the seconds since 1970-01-01 UTC divided by 60.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Minute(u32);

impl Minute {
    /// The last minute that the store can hold, in the year 2448.
    pub const MAX: Self = Self(((1 << 22) - 1) * HOUR);

    /// The minute with this number, at most [`Minute::MAX`].
    #[must_use]
    pub fn new(minutes: u32) -> Self {
        Self(minutes.min(Self::MAX.0))
    }

    /// The minute of a Unix time in seconds. Times before 1970 become minute 0.
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Self {
        let minutes = u64::try_from(seconds).unwrap_or(0) / 60;
        Self::new(u32::try_from(minutes).unwrap_or(u32::MAX))
    }

    /// The number of the minute since 1970.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The minute that is `minutes` later.
    #[must_use]
    pub fn after(self, minutes: u32) -> Self {
        Self::new(self.0.saturating_add(minutes))
    }

    /// The minute that is `minutes` earlier, at least minute 0.
    #[must_use]
    pub fn before(self, minutes: u32) -> Self {
        Self(self.0.saturating_sub(minutes))
    }

    pub(crate) fn hour(self) -> u32 {
        self.0 / HOUR
    }

    pub(crate) fn of_hour(hour: u32) -> Self {
        Self::new(hour.saturating_mul(HOUR))
    }
}

/// A range of minutes, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub from: Minute,
    /// The minute after the last.
    pub to: Minute,
}

impl Span {
    #[must_use]
    pub fn minutes(self) -> u32 {
        self.to.0.saturating_sub(self.from.0)
    }

    pub(crate) fn hours(self) -> std::ops::Range<u32> {
        self.from.hour()..self.to.0.max(self.from.0).div_ceil(HOUR)
    }
}

/// The distance between the points of a chart. Points start at its multiples in Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step(u32);

impl Step {
    pub const MINUTE: Self = Self(1);
    pub const HOUR: Self = Self(HOUR);
    /// One day of UTC.
    pub const DAY: Self = Self(HOUR * DAY);

    /// All steps, in minutes. From an hour on, a step is whole hours.
    const ALL: [u32; 14] = [
        1,
        2,
        5,
        10,
        15,
        30,
        HOUR,
        2 * HOUR,
        3 * HOUR,
        6 * HOUR,
        12 * HOUR,
        24 * HOUR,
        48 * HOUR,
        168 * HOUR,
    ];

    /// The smallest step with which `span` has at most `n_points` points; a week if none has.
    #[must_use]
    pub fn fitting(span: Span, n_points: usize) -> Self {
        let fits = |step: &&u32| Self(**step).n_points(span) <= n_points;
        Self(Self::ALL.iter().find(fits).copied().unwrap_or(168 * HOUR))
    }

    #[must_use]
    pub fn minutes(self) -> u32 {
        self.0
    }

    /// The longer of this step and an hour.
    #[must_use]
    pub fn at_least_hours(self) -> Self {
        Self(self.0.max(HOUR))
    }

    #[must_use]
    pub fn n_points(self, span: Span) -> usize {
        if span.minutes() == 0 {
            return 0;
        }
        self.point(span, span.to.before(1)).map_or(0, |last| last + 1)
    }

    /// The start of the first point in `span`.
    pub(crate) fn start(self, span: Span) -> Minute {
        Minute(span.from.0 / self.0 * self.0)
    }

    /// The point that a minute belongs to; `None` if it lies outside `span`.
    pub(crate) fn point(self, span: Span, minute: Minute) -> Option<usize> {
        let is_inside = span.from <= minute && minute < span.to;
        let ix = (minute.0 / self.0).saturating_sub(span.from.0 / self.0);
        is_inside.then(|| usize::try_from(ix).unwrap_or(usize::MAX))
    }
}
