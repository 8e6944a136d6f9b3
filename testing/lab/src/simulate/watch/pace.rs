//! The speed of virtual time in the view.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use gpool_model::{Millis, Timestamp};

/// Virtual time per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// This virtual time per second.
    PerSecond(Millis),
    /// As fast as the simulation runs.
    Most,
}

/// The speeds that keys select, ascending, in seconds; the next faster one is `Most`.
const STEPS: [u32; 20] = [
    1, 5, 15, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800,
    345_600, 604_800, 1_209_600, 2_592_000,
];
/// Approximate length of a whole simulation in seconds.
const WHOLE: u64 = 60;
/// Shorter waits are skipped, since waiting would take longer.
const SLACK: Duration = Duration::from_millis(5);
/// Longer delays are not caught up.
const LAG: Duration = Duration::from_millis(200);

impl Speed {
    /// The speed at which this virtual time takes about a minute.
    #[must_use]
    pub fn of_whole(span: Millis) -> Self {
        let seconds = span.get() / 1000 / WHOLE;
        let step = STEPS.into_iter().find(|step| u64::from(step + step / 2) >= seconds);
        step.map_or(Self::Most, |step| Self::PerSecond(Millis::from_secs(step)))
    }

    /// The next higher speed.
    pub fn faster(self) -> Self {
        let Self::PerSecond(now) = self else { return self };
        let mut steps = STEPS.into_iter().map(Millis::from_secs);
        steps.find(|step| *step > now).map_or(Self::Most, Self::PerSecond)
    }

    /// The next lower speed.
    pub fn slower(self) -> Self {
        let is_slower = |step: &Millis| match self {
            Self::PerSecond(now) => *step < now,
            Self::Most => true,
        };
        let mut steps = STEPS.into_iter().rev().map(Millis::from_secs);
        steps.find(is_slower).map_or(self, Self::PerSecond)
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Most);
        }
        match gpool_model::parse::span(text) {
            Ok(span) if span > Millis::ZERO => Ok(Self::PerSecond(span)),
            _ => Err(format!("{text:?} is not a virtual time per second: write 1h, 30m or max")),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::PerSecond(span) = self else { return f.write_str("full speed") };
        let seconds = span.get() / 1000;
        let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
        let whole =
            units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
        match whole {
            Some((unit, letter)) => write!(f, "{}{letter} per second", seconds / unit),
            None => write!(f, "{span} per second"),
        }
    }
}

/// Maps real time to virtual time. Real times are relative to the begin.
#[derive(Debug, Clone)]
pub struct Pace {
    speed: Speed,
    is_paused: bool,
    /// The last point at which the speed changed, in both times.
    from: (Duration, Timestamp),
}

impl Pace {
    /// Starts at the very beginning.
    #[must_use]
    pub fn new(speed: Speed) -> Self {
        Self { speed, is_paused: false, from: (Duration::ZERO, Timestamp::ZERO) }
    }

    #[must_use]
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Continues from this virtual time.
    pub fn go_from(&mut self, virtual_time: Timestamp, at: Duration) {
        self.from = (at, virtual_time);
    }

    /// The current virtual time, if no event happens before `until`.
    #[must_use]
    pub fn now(&self, until: Timestamp, at: Duration) -> Timestamp {
        let (since, from) = self.from;
        match self.speed {
            _ if self.is_paused => from.min(until),
            Speed::Most => until,
            Speed::PerSecond(span) => {
                let micros = at.saturating_sub(since).as_micros();
                let passed = micros.saturating_mul(u128::from(span.get())) / 1_000_000;
                let passed = Millis::new(u64::try_from(passed).unwrap_or(u64::MAX));
                from.after(passed).min(until)
            }
        }
    }

    /// The time until virtual time reaches `until`; `None` if it has.
    pub fn wait(&mut self, until: Timestamp, at: Duration) -> Option<Duration> {
        let (since, from) = self.from;
        if self.is_paused {
            return Some(Duration::MAX);
        }
        let due = since.saturating_add(self.takes(until.since(from)));
        if due > at + SLACK {
            return Some(due - at);
        }
        if self.speed == Speed::Most || at > due + LAG {
            self.from = (at, until);
        }
        None
    }

    /// The real time that this virtual time takes.
    #[must_use]
    pub fn takes(&self, span: Millis) -> Duration {
        match self.speed {
            Speed::Most => Duration::ZERO,
            Speed::PerSecond(each) => {
                let micros = u128::from(span.get()) * 1_000_000 / u128::from(each.get().max(1));
                Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
            }
        }
    }

    /// Pauses or continues.
    pub fn pause(&mut self, until: Timestamp, at: Duration) {
        self.from = (at, self.now(until, at));
        self.is_paused = !self.is_paused;
    }

    /// Increases the speed.
    pub fn faster(&mut self, until: Timestamp, at: Duration) {
        self.from = (at, self.now(until, at));
        self.speed = self.speed.faster();
    }

    /// Decreases the speed.
    pub fn slower(&mut self, until: Timestamp, at: Duration) {
        self.from = (at, self.now(until, at));
        self.speed = self.speed.slower();
    }
}
