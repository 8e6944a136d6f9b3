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
    let reader = Reader { now, zone, lean };
    reader.read(&text.trim().to_ascii_lowercase()).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // It could mean minutes, seconds or a year, so it is refused.
        let why = if bare { " (a number alone says no unit)" } else { "" };
        let relative = match lean {
            Lean::Past => "2h (ago)",
            Lean::Future => "now+2h",
        };
        format!(
            "{shown:?} is not a moment{why}; write, for example, {relative}, 15:30, tomorrow, \
             fri 18:00 or 2026-11-20T15:30"
        )
    })
}

struct Reader<'a> {
    now: Time,
    zone: &'a TimeZone,
    lean: Lean,
}

impl Reader<'_> {
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
fn time_of_day(text: &str) -> Option<civil::Time> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        text.parse().expect(text)
    }

    fn check(zone: &TimeZone, lean: Lean, table: &[(&str, &str)]) {
        // A Friday.
        let now = at("2026-11-20T14:50:00Z");
        for (text, moment) in table {
            assert_eq!(read(text, now, zone, lean), Ok(at(moment)), "{text} {lean:?}");
        }
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        let both = [
            ("now", "2026-11-20T14:50:00Z"),
            ("now+2h", "2026-11-20T16:50:00Z"),
            ("now + 90 minutes", "2026-11-20T16:20:00Z"),
            ("now+1hour", "2026-11-20T15:50:00Z"),
            ("now-1d", "2026-11-19T14:50:00Z"),
            ("in 2 days", "2026-11-22T14:50:00Z"),
            ("2h ago", "2026-11-20T12:50:00Z"),
            ("today", "2026-11-20T00:00:00Z"),
            ("Tomorrow", "2026-11-21T00:00:00Z"),
            ("tomorrow 08:00", "2026-11-21T08:00:00Z"),
            ("yesterday noon", "2026-11-19T12:00:00Z"),
            ("2026-11-19", "2026-11-19T00:00:00Z"),
            ("2026-11-19T10:00", "2026-11-19T10:00:00Z"),
            ("2026-11-19 10:00:07", "2026-11-19T10:00:07Z"),
            ("2026-11-19T10:00:00+01:00", "2026-11-19T09:00:00Z"),
        ];
        check(&TimeZone::UTC, Lean::Past, &both);
        check(&TimeZone::UTC, Lean::Future, &both);
    }

    #[test]
    fn what_names_no_day_leans_one_way() {
        let past = [
            ("2h", "2026-11-20T12:50:00Z"),
            ("14:30", "2026-11-20T14:30:00Z"),
            ("15:30", "2026-11-19T15:30:00Z"),
            ("fri 18:00", "2026-11-13T18:00:00Z"),
            ("thursday", "2026-11-19T00:00:00Z"),
        ];
        check(&TimeZone::UTC, Lean::Past, &past);
        let future = [
            ("2h", "2026-11-20T16:50:00Z"),
            ("+30m", "2026-11-20T15:20:00Z"),
            ("15:30", "2026-11-20T15:30:00Z"),
            ("3:30 PM", "2026-11-20T15:30:00Z"),
            ("12am", "2026-11-21T00:00:00Z"),
            ("noon", "2026-11-21T12:00:00Z"),
            ("14:30", "2026-11-21T14:30:00Z"),
            ("fri 18:00", "2026-11-20T18:00:00Z"),
            ("fri", "2026-11-27T00:00:00Z"),
            ("tue 9am", "2026-11-24T09:00:00Z"),
        ];
        check(&TimeZone::UTC, Lean::Future, &future);
    }

    #[test]
    fn the_zone_counts() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let future = [
            ("16:49", "2026-11-21T14:49:00Z"),
            ("16:51", "2026-11-20T14:51:00Z"),
            ("tomorrow", "2026-11-20T22:00:00Z"),
        ];
        check(&zone, Lean::Future, &future);
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        let now = at("2026-11-20T14:50:00Z");
        for text in [
            "",
            "2026",
            "25:99",
            "-1h",
            "99999999999999w",
            "now+60",
            "now+",
            "now 2h",
            "13pm",
            "24:00",
            "fri sat",
            "2026-02-30",
            "tomorrow 25:00",
            "t",
            "+",
            "1:2:3:4",
            "in",
            "ago",
            "9999-12-31T23:59+5h",
            "１５:30",
            "now+999999999999h",
            "1970-01-01T00:00-05:00x",
        ] {
            for lean in [Lean::Past, Lean::Future] {
                let error = read(text, now, &TimeZone::UTC, lean).expect_err(text);
                assert!(error.contains("for example"), "{error}");
            }
        }
        let error = read("60", now, &TimeZone::UTC, Lean::Future).expect_err("no unit");
        assert!(error.contains("says no unit"), "{error}");
    }
}
