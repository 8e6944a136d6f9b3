//! Writes times and lengths of time for people, in local time with its zone, or in UTC on request.
//! `moment.rs` parses times in the same zone.

use std::sync::OnceLock;

use gpool_model::{Millis, Timestamp};
use gpool_wire::Time;
use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::moment::{self, Lean};

/// Writes times in one zone.
#[derive(Debug, Clone)]
pub struct Clock {
    /// The name of the zone; `None` is the machine's.
    named: Option<String>,
    // Loaded on first use, since most verbs print no time.
    zone: OnceLock<TimeZone>,
}

impl Clock {
    /// A clock of the machine's zone, or of UTC.
    #[must_use]
    pub fn new(utc: bool) -> Self {
        Self { named: utc.then(|| "UTC".to_owned()), zone: OnceLock::new() }
    }

    /// A clock of a zone that [`zone_name`] accepts.
    #[must_use]
    pub fn of(name: Option<String>) -> Self {
        Self { named: name, zone: OnceLock::new() }
    }

    fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(|| match self.named.as_deref() {
            None => TimeZone::system(),
            Some(name) => zone(name).unwrap_or(TimeZone::UTC),
        })
    }

    fn local(&self, moment: Time) -> Zoned {
        // A time out of range comes from a wrong clock; the last valid time replaces it.
        let millis = i64::try_from(moment.0.get()).unwrap_or(i64::MAX);
        let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
        moment.to_zoned(self.zone().clone())
    }

    /// A time in full, with its zone: `2026-11-20 15:30:00 CET`.
    #[must_use]
    pub fn full(&self, moment: Time) -> String {
        self.local(moment).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
    }

    /// A time without its zone: `2026-11-20T15:30:00`.
    #[must_use]
    pub fn plain(&self, moment: Time) -> String {
        self.local(moment).strftime("%Y-%m-%dT%H:%M:%S").to_string()
    }

    /// The shortest form that differs from `now`: `15:30`, `Fri 15:30`, `2026-11-20`.
    #[must_use]
    pub fn short(&self, moment: Time, now: Time) -> String {
        let (then, today) = (self.local(moment), self.local(now));
        let days = (then.date() - today.date()).get_days().abs();
        let format = match days {
            0 => "%H:%M",
            1..=6 => "%a %H:%M",
            _ => "%Y-%m-%d",
        };
        then.strftime(format).to_string()
    }

    /// A time with seconds, for lists of events: `15:30:02`, with the date on another day.
    #[must_use]
    pub fn second(&self, moment: Time, now: Time) -> String {
        let (then, today) = (self.local(moment), self.local(now));
        let format = if then.date() == today.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
        then.strftime(format).to_string()
    }

    /// A text of the server with its times in the short form: `at Fri 20 Nov 15:30 UTC` becomes
    /// `at 15:30`. Of the years that fit the weekday, the nearest to `now` counts.
    #[must_use]
    pub fn localized(&self, text: &str, now: Time) -> String {
        const END: &str = " UTC";
        // As in `Fri 20 Nov 15:30`.
        const LENGTH: usize = 16;
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(END) {
            let (head, tail) = rest.split_at(at + END.len());
            let start = at.checked_sub(LENGTH).filter(|start| head.is_char_boundary(*start));
            let moment = start.and_then(|start| Some((start, parsed(&head[start..at], now)?)));
            match moment {
                Some((start, moment)) => {
                    out.push_str(&head[..start]);
                    out.push_str(&self.short(moment, now));
                }
                None => out.push_str(head),
            }
            rest = tail;
        }
        out.push_str(rest);
        out
    }

    /// The zone's name at that time.
    #[must_use]
    pub fn zone_name(&self, moment: Time) -> String {
        self.local(moment).strftime("%Z").to_string()
    }

    /// Parses a time, usually in the past: `2h` is two hours ago.
    pub fn read(&self, text: &str, now: Time) -> Result<Time, String> {
        moment::read(text, now, self.zone(), Lean::Past)
    }

    /// Parses a time, usually in the future: `2h` is in two hours, `18:00` the next 18:00.
    pub fn read_ahead(&self, text: &str, now: Time) -> Result<Time, String> {
        moment::read(text, now, self.zone(), Lean::Future)
    }
}

/// A time of [`Time::short`] without its zone, in a year near `now`.
fn parsed(text: &str, now: Time) -> Option<Time> {
    let now = i64::try_from(now.0.get()).ok()?;
    let year = jiff::Timestamp::from_millisecond(now).ok()?.to_zoned(TimeZone::UTC).year();
    let of_year = |year: i16| {
        let moment = format!("{year} {text}");
        let moment = jiff::civil::DateTime::strptime("%Y %a %d %b %H:%M", moment).ok()?;
        Some(moment.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
    };
    let years = [year, year.saturating_add(1), year.saturating_sub(1)];
    let moments = years.into_iter().filter_map(of_year);
    let moment = moments.min_by_key(|moment| moment.abs_diff(now))?;
    Some(Time(Timestamp::new(u64::try_from(moment).ok()?)))
}

fn zone(name: &str) -> Result<TimeZone, jiff::Error> {
    if name == "UTC" { Ok(TimeZone::UTC) } else { TimeZone::get(name) }
}

/// Checks the name of a time zone.
pub fn zone_name(name: &str) -> Result<String, String> {
    zone(name).map(|_| name.to_owned()).map_err(|_| {
        format!("{name:?} is not a time zone; write, for example, Europe/Berlin or UTC")
    })
}

#[must_use]
pub fn now() -> Time {
    let millis = jiff::Timestamp::now().as_millisecond();
    Time(Timestamp::new(u64::try_from(millis).unwrap_or(0)))
}

/// Converts seconds of the API to a length of time.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
pub fn span(seconds: f64) -> Millis {
    // Far above any real length of time, and exact as a float.
    const MOST: f64 = 1e15;
    Millis::new((seconds * 1000.0).clamp(0.0, MOST) as u64)
}
