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

    fn faster(self) -> Self {
        let Self::PerSecond(now) = self else { return self };
        let mut steps = STEPS.into_iter().map(Millis::from_secs);
        steps.find(|step| *step > now).map_or(Self::Most, Self::PerSecond)
    }

    fn slower(self) -> Self {
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
            _ => Err(format!(
                "{text:?} is no virtual time that passes in a second: write 1h, 30m or max"
            )),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::PerSecond(span) = self else { return f.write_str("as fast as it goes") };
        let seconds = span.get() / 1000;
        let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
        let whole =
            units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
        match whole {
            Some((unit, letter)) => write!(f, "{}{letter} a second", seconds / unit),
            None => write!(f, "{span} a second"),
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

    /// The speed.
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Speed = Speed::PerSecond(Millis::from_hours(1));

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn hour(n: u64) -> Timestamp {
        Timestamp::new(n * 3_600_000)
    }

    #[test]
    fn speeds_are_parsed_and_printed_alike() {
        assert_eq!("1h".parse(), Ok(HOUR));
        assert_eq!("max".parse(), Ok(Speed::Most));
        for text in ["", "0s", "fast", "-1h"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
        let said = |text: &str| text.parse::<Speed>().expect("a speed").to_string();
        assert_eq!(said("24h"), "1d a second");
        assert_eq!(said("90m"), "90m a second");
        assert_eq!(said("500ms"), "500ms a second");
        assert_eq!(said("max"), "as fast as it goes");
    }

    #[test]
    fn a_month_takes_about_a_minute() {
        assert_eq!(Speed::of_whole(Millis::from_hours(31 * 24)).to_string(), "12h a second");
        assert_eq!(Speed::of_whole(Millis::from_hours(24)).to_string(), "30m a second");
        assert_eq!(Speed::of_whole(Millis::ZERO).to_string(), "1s a second");
        assert_eq!(Speed::of_whole(Millis::new(u64::MAX)), Speed::Most);
    }

    #[test]
    fn keys_lead_from_each_speed_to_the_next_and_back() {
        let mut speed = Speed::PerSecond(Millis::from_mins(90));
        let mut said = Vec::new();
        for _ in 0..3 {
            speed = speed.faster();
            said.push(speed.to_string());
        }
        speed = speed.slower();
        assert_eq!(said, ["2h a second", "3h a second", "6h a second"]);
        assert_eq!(speed.to_string(), "3h a second");
        for _ in 0..30 {
            speed = speed.faster();
        }
        assert_eq!(speed, Speed::Most);
        assert_eq!(speed.slower().to_string(), "30d a second");
        for _ in 0..30 {
            speed = speed.slower();
        }
        assert_eq!(speed.to_string(), "1s a second");
    }

    #[test]
    fn time_is_waited_for_and_not_caught_up_with() {
        let mut pace = Pace::new(HOUR);
        pace.go_from(hour(5), ms(1000));
        assert_eq!(pace.wait(hour(5), ms(1000)), None);
        assert_eq!(pace.wait(hour(7), ms(1500)), Some(ms(1500)));
        assert_eq!(pace.now(hour(7), ms(2000)), hour(6));
        // A small delay is caught up.
        assert_eq!(pace.wait(hour(7), ms(3100)), None);
        assert_eq!(pace.wait(hour(8), ms(3100)), Some(ms(900)));
        // A large delay is not.
        assert_eq!(pace.wait(hour(8), ms(9000)), None);
        assert_eq!(pace.wait(hour(9), ms(9000)), Some(ms(1000)));
    }

    #[test]
    fn nothing_passes_in_a_pause_and_all_goes_on_from_there() {
        let mut pace = Pace::new(HOUR);
        pace.go_from(hour(0), ms(0));
        pace.pause(hour(9), ms(2000));
        assert_eq!(pace.wait(hour(9), ms(60_000)), Some(Duration::MAX));
        assert_eq!(pace.now(hour(9), ms(60_000)), hour(2));
        pace.pause(hour(9), ms(60_000));
        assert_eq!(pace.wait(hour(9), ms(60_000)), Some(ms(7000)));
        pace.faster(hour(9), ms(61_000));
        assert_eq!(pace.wait(hour(9), ms(61_000)), Some(ms(3000)));
        // At full speed nothing waits.
        let mut pace = Pace::new(Speed::Most);
        assert_eq!(pace.wait(hour(9), ms(5)), None);
        pace.slower(hour(9), ms(10));
        assert_eq!(pace.now(hour(10), ms(10)), hour(9));
    }
}
