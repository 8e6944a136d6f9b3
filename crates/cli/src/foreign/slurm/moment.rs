//! Slurm's forms of a time, translated into those of gpool.
//!
//! Source: the manual of sbatch, `--begin`.

use jiff::civil::{Date, DateTime, Time};

use crate::moment::time_of_day;

/// Slurm's names of times of day.
const NAMES: [(&str, &str); 4] =
    [("midnight", "00:00"), ("noon", "12:00"), ("fika", "15:00"), ("teatime", "16:00")];

/// Translates a time for the local clock of this process.
#[must_use]
pub fn moment(text: &str) -> String {
    moment_at(text, jiff::Zoned::now().datetime())
}

/// Translates a time of a query: a date without a year is one of this year.
#[must_use]
pub fn past(text: &str) -> String {
    moment_at(text, jiff::Zoned::now().datetime().first_of_year())
}

/// Translates a time: `now+60` is `now+60s`, `12/31-teatime` is `2026-12-31T16:00`. A time that is
/// not Slurm's is returned as it is.
#[must_use]
pub fn moment_at(text: &str, now: DateTime) -> String {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("now") {
        return length(rest.trim()).map_or(text.to_owned(), |seconds| format!("now+{seconds}s"));
    }
    let named = |text: &str| {
        let name = NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
        name.map_or(text.to_owned(), |(_, time)| (*time).to_owned())
    };
    if let Some((day, time)) = lower.split_at_checked("2026-12-31".len())
        && day.parse::<Date>().is_ok()
        && let Some(time) = time.strip_prefix('-')
    {
        return format!("{day} {}", named(time));
    }
    let end = lower.find(|c: char| !c.is_ascii_digit() && c != '/' && c != '.');
    let (day, rest) = lower.split_at(end.unwrap_or(lower.len()));
    let time = rest.strip_prefix(['-', 't', ' ']).unwrap_or(rest).trim();
    let time = named(if time.is_empty() { "midnight" } else { time });
    match time_of_day(&time).and_then(|time| date(day, time, now)) {
        Some(date) => format!("{date} {time}"),
        None => match text.split_once(' ') {
            Some((day, time)) => format!("{day} {}", named(time.trim())),
            None => named(text),
        },
    }
}

/// Parses `+1hour` into seconds; a plain number means seconds.
fn length(text: &str) -> Option<u64> {
    let text = text.strip_prefix('+')?.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().trim_end_matches('s') {
        "" | "second" => 1_u64,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86400,
        "week" => 604_800,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses `MMDD[YY]`, `MM/DD[/YY]` or `MM.DD[.YY]`. Without a year it is the next such date.
fn date(text: &str, time: Time, now: DateTime) -> Option<Date> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = match text.len() {
        4 if is_digits => vec![&text[..2], &text[2..]],
        6 if is_digits => vec![&text[..2], &text[2..4], &text[4..]],
        _ => text.split(['/', '.']).collect(),
    };
    let number = |part: &str| part.parse::<i8>().ok();
    match parts[..] {
        [month, day, year] => {
            let year = match (year.len(), year.parse::<i16>().ok()?) {
                (2, year) => 2000 + year,
                (4, year) => year,
                _ => return None,
            };
            Date::new(year, number(month)?, number(day)?).ok()
        }
        [month, day] => {
            let of = |year: i16| Date::new(year, number(month)?, number(day)?).ok();
            let is_ahead = |date: &Date| date.to_datetime(time) >= now;
            // The 29th of February may be years away.
            (now.year()..=now.year().saturating_add(8)).filter_map(of).find(is_ahead)
        }
        _ => None,
    }
}
