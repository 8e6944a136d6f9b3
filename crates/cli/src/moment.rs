//! Parses absolute and relative times in one zone: `18:00`, `fri 18:00`, `2026-11-20T15:30`,
//! `tomorrow`, `now+2h`, `2h ago`. It reads no clock: the caller passes the current time.
//! [`crate::render::clock`] writes times.

use gpool_model::{Millis, Timestamp, parse};
use gpool_wire::Time;
use jiff::civil::{self, Weekday};
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};

/// How to resolve a time without a day, and the direction of a length without a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lean {
    /// The last one: `2h` is two hours ago, `18:00` the last 18:00.
    Past,
    /// The next one: `2h` is in two hours, `18:00` the next 18:00.
    Future,
}

/// Parses a time.
///
/// # Errors
/// It is not a time, is out of range, or is ambiguous; the text names valid examples.
pub fn read(text: &str, now: Time, zone: &TimeZone, lean: Lean) -> Result<Time, String> {
    let reader = MomentParser { now, zone, lean };
    reader.read(&text.trim().to_ascii_lowercase()).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // It could mean minutes, seconds or a year, so it is refused.
        let why = if bare { " (a number needs a unit)" } else { "" };
        let relative = match lean {
            Lean::Past => "2h (ago)",
            Lean::Future => "now+2h",
        };
        format!(
            "{shown:?} is not a time{why}; write, for example, {relative}, 15:30, tomorrow, fri \
             18:00 or 2026-11-20T15:30"
        )
    })
}

struct MomentParser<'a> {
    now: Time,
    zone: &'a TimeZone,
    lean: Lean,
}

impl MomentParser<'_> {
    /// Parses lower-case text.
    fn read(&self, text: &str) -> Option<Time> {
        if text == "now" {
            return Some(self.now);
        }
        // RFC 3339, which includes the zone.
        if let Ok(moment) = text.to_ascii_uppercase().parse::<Time>() {
            return Some(moment);
        }
        self.relative(text).or_else(|| self.absolute(text))
    }

    /// Parses `now+2h`, `now-30m`, `+2h`, `in 2h`, `2h ago`, `2h`.
    fn relative(&self, text: &str) -> Option<Time> {
        let from_now = text.strip_prefix("now").map(str::trim_start).unwrap_or(text);
        let (length, lean) = if let Some(length) = from_now.strip_prefix('+') {
            (length, Lean::Future)
        } else if let Some(length) = text.strip_prefix("in ") {
            (length, Lean::Future)
        } else if let Some(length) = text.strip_suffix(" ago") {
            (length, Lean::Past)
        } else if from_now.len() < text.len() {
            (from_now.strip_prefix('-')?, Lean::Past)
        } else {
            (text, self.lean)
        };
        let length = length_of(length.trim())?;
        let millis = match lean {
            Lean::Past => self.now.0.get().checked_sub(length.get()),
            Lean::Future => self.now.0.get().checked_add(length.get()),
        };
        in_range(millis?)
    }

    /// Parses a date, a time of day, or both.
    fn absolute(&self, text: &str) -> Option<Time> {
        let today = self.local()?.date();
        if let Some(time) = time_of_day(text) {
            return self.nearest(today, time, 1);
        }
        // The letter t separates date and time, and also occurs in names of days.
        let (day, time) = match text.split_once(' ').or_else(|| text.rsplit_once('t')) {
            Some((day, time)) if time_of_day(time.trim()).is_some() => {
                (day, time_of_day(time.trim())?)
            }
            _ => (text, civil::Time::midnight()),
        };
        let date = match day {
            "today" => today,
            "tomorrow" => today.tomorrow().ok()?,
            "yesterday" => today.yesterday().ok()?,
            _ => match weekday(day) {
                Some(weekday) => {
                    let ahead = i64::from(today.weekday().until(weekday));
                    return self.nearest(today.checked_add(ahead.days()).ok()?, time, 7);
                }
                None => day.parse::<civil::Date>().ok()?,
            },
        };
        self.zoned(date.to_datetime(time))
    }

    /// The next or last occurrence of a time that recurs every `days` days.
    fn nearest(&self, date: civil::Date, time: civil::Time, days: i64) -> Option<Time> {
        let at = self.zoned(date.to_datetime(time))?;
        let other = match self.lean {
            Lean::Future if at < self.now => date.checked_add(days.days()),
            Lean::Past if at > self.now => date.checked_sub(days.days()),
            _ => return Some(at),
        };
        self.zoned(other.ok()?.to_datetime(time))
    }

    fn local(&self) -> Option<Zoned> {
        let millis = i64::try_from(self.now.0.get()).ok()?;
        Some(jiff::Timestamp::from_millisecond(millis).ok()?.to_zoned(self.zone.clone()))
    }

    fn zoned(&self, civil: civil::DateTime) -> Option<Time> {
        let moment = civil.to_zoned(self.zone.clone()).ok()?.timestamp();
        u64::try_from(moment.as_millisecond()).ok().and_then(in_range)
    }
}

/// Parses a length of time. A plain number is refused, since after `now+` it means seconds in one
/// scheduler and minutes in another. Also accepts words: `2 hours`, `1day`.
fn length_of(text: &str) -> Option<Millis> {
    if text.bytes().all(|b| b.is_ascii_digit()) || text.contains([':', '-']) {
        return None;
    }
    let mut short = text.replace(' ', "");
    for (word, unit) in
        [("second", "s"), ("minute", "m"), ("hour", "h"), ("day", "d"), ("week", "w")]
    {
        short = short.replace(&format!("{word}s"), unit).replace(word, unit);
    }
    parse::span(&short).ok()
}

/// Parses `15:30`, `15:30:00`, `3pm`, `5:30pm`, `noon`, `midnight`.
pub(crate) fn time_of_day(text: &str) -> Option<civil::Time> {
    match text {
        "noon" => return civil::Time::new(12, 0, 0, 0).ok(),
        "midnight" => return Some(civil::Time::midnight()),
        _ => {}
    }
    let (clock, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(clock), _) => (clock.trim_end(), Some(0)),
        (_, Some(clock)) => (clock.trim_end(), Some(12)),
        _ => (text, None),
    };
    let number = |part: &str| {
        let fits = matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| part.parse::<i8>().ok()).flatten()
    };
    let parts: Vec<i8> = clock.split(':').map(number).collect::<Option<_>>()?;
    let (hour, minute, second) = match (parts.as_slice(), half) {
        ([hour], Some(_)) => (*hour, 0, 0),
        ([hour, minute], _) => (*hour, *minute, 0),
        ([hour, minute, second], _) => (*hour, *minute, *second),
        _ => return None,
    };
    let hour = match half {
        None => hour,
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
    };
    civil::Time::new(hour, minute, second, 0).ok()
}

fn weekday(text: &str) -> Option<Weekday> {
    let days = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let found = days.into_iter().find(|(name, _)| text == *name || text == &name[..3]);
    found.map(|(_, day)| day)
}

/// The time, if it can be written as a date.
fn in_range(millis: u64) -> Option<Time> {
    let millis_signed = i64::try_from(millis).ok()?;
    jiff::Timestamp::from_millisecond(millis_signed).ok()?;
    Some(Time(Timestamp::new(millis)))
}
