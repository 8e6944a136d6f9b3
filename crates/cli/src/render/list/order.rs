//! Keys and order of rows for `--sort` and `--filter`: the keys of the JSON, and every column by
//! its name or heading.

use std::cmp::Ordering;

use gpool_wire::json::nearest;
use serde::Serialize;
use serde_json::Value;

use super::{Column, Noun, Row};
use crate::errors;
use crate::failure::{Failure, Result};
use crate::render::clock::{Clock, now};
use crate::render::view::View;

/// The JSON keys of columns whose text has no order, such as times; the first one that the rows
/// have counts.
const KEYS: &[(&str, &[&str])] = &[
    ("created", &["created_at"]),
    ("ended", &["ended_at", "run.ended_at"]),
    ("expires", &["expires_at"]),
    ("gpu", &["index"]),
    ("mem", &["memory_used", "request.mem"]),
    ("memory", &["memory_used"]),
    ("next", &["next_at"]),
    ("prio", &["priority", "request.priority"]),
    ("started", &["started_at", "run.started_at"]),
    ("submitted", &["submitted_at"]),
    ("time", &["at"]),
    ("util", &["utilization"]),
    ("waited", &["waited_s", "wait.waited_s"]),
];

/// The values of one key or column.
pub(super) enum Field<'a, T: 'static> {
    Key(&'a str),
    Column(&'a Column<T>),
}

impl<T: Serialize> Field<'_, T> {
    /// Finds the field of a name: a key of the JSON, or the name or heading of a column.
    pub fn find<'a>(noun: &'a Noun<T>, keys: &'a [String], name: &'a str) -> Result<Field<'a, T>> {
        let is_key = |name: &&str| keys.iter().any(|key| key == name);
        if is_key(&name) {
            return Ok(Field::Key(name));
        }
        let Some(column) = noun.columns.iter().find(|column| is_named(column, name)) else {
            if let Some(key) = key_named(keys, name) {
                return Ok(Field::Key(key));
            }
            let columns = noun.columns.iter().map(|column| column.name);
            let keys = keys.iter().map(|key| key.rsplit_once('.').map_or(&**key, |it| it.1));
            let mut known: Vec<&str> = columns.chain(keys).collect();
            known.sort_unstable();
            known.dedup();
            return Err(no_column("key or column", name, &known));
        };
        let others = KEYS.iter().find(|(name, _)| *name == column.name).map(|(_, keys)| *keys);
        let mut known = std::iter::once(column.name).chain(others.into_iter().flatten().copied());
        Ok(known.find(is_key).map_or(Field::Column(column), Field::Key))
    }

    pub fn of(&self, row: &Row<T>) -> Value {
        match self {
            Self::Key(key) => value_at(&row.json, key).clone(),
            Self::Column(column) => {
                // The text for any reader: it is compared and not shown.
                let clock = Clock::new(true);
                let view = View { clock: &clock, now: now(), me: "" };
                Value::String((column.cell)(&row.item, &view).plain().to_owned())
            }
        }
    }
}

/// The key with this name. A key of a group also goes by its last part, if no other key has it.
pub(super) fn key_named<'a>(keys: &'a [String], name: &str) -> Option<&'a str> {
    let exact = keys.iter().find(|key| *key == name);
    let mut within = keys.iter().filter(|key| key.rsplit_once('.').is_some_and(|it| it.1 == name));
    exact.or_else(|| within.next().filter(|_| within.next().is_none())).map(String::as_str)
}

/// The value of a key, which may be in a group: `run.started_at`. `null` if there is none.
#[must_use]
pub fn value_at<'a>(json: &'a Value, key: &str) -> &'a Value {
    key.split('.').fold(json, |json, part| &json[part])
}

/// Whether a column has this name or heading: `free_in`, `FREE IN`, `gpu-h`.
fn is_named<T>(column: &Column<T>, name: &str) -> bool {
    let letters = |text: &str| {
        let kept = text.chars().filter(|c| !matches!(c, ' ' | '_' | '-'));
        kept.flat_map(char::to_lowercase).collect::<String>()
    };
    // `TIME / LIMIT` is one column with two headings.
    let heads = column.head.split(" / ").chain([column.head]);
    std::iter::once(column.name).chain(heads).any(|known| letters(known) == letters(name))
}

/// The failure for an unknown name.
pub(super) fn no_column(what: &str, name: &str, known: &[&str]) -> Failure {
    let failure = Failure::new(errors::BAD_COLUMN, format!("there is no {what} {name:?}"))
        .why(format!("there are: {}", known.join(", ")));
    match nearest(name, known.iter().copied()) {
        Some(near) => failure.tip(near),
        None => failure,
    }
}

/// Compares numbers and lengths of time by value, and other values as text, with runs of digits as
/// numbers.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (measure(a), measure(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => natural(&plain(a), &plain(b)),
    }
}

/// The number at the start of a value: 12.5 of `12.5/80`, and milliseconds of `3h00 / 8h00`.
fn measure(value: &Value) -> Option<f64> {
    let text = match value {
        Value::String(text) => text.split([' ', '/']).next()?.trim_end_matches('%'),
        other => return other.as_f64(),
    };
    let millis = |text| gpool_model::parse::span(text).ok().map(|span| span.get());
    // Lengths of time that matter are exact as a float.
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 ms")]
    text.parse().ok().or_else(|| millis(text).map(|millis| millis as f64))
}

/// Compares texts with runs of digits as numbers.
#[must_use]
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (n_a, n_b) = (digits(a), digits(b));
        if n_a > 0 && n_b > 0 {
            let (x, y) = (a[..n_a].trim_start_matches('0'), b[..n_b].trim_start_matches('0'));
            let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
            if order.is_ne() {
                return order;
            }
            (a, b) = (&a[n_a..], &b[n_b..]);
            continue;
        }
        let (mut rest_a, mut rest_b) = (a.chars(), b.chars());
        match (rest_a.next(), rest_b.next()) {
            (None, None) => return Ordering::Equal,
            (x, y) if x != y => return x.cmp(&y),
            _ => (a, b) = (rest_a.as_str(), rest_b.as_str()),
        }
    }
}

/// A value in CSV: strings as they are, nothing for null, other values as JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
