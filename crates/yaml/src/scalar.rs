//! The types of plain scalars in YAML 1.1, and values as Python writes them.

use crate::value::{Key, Node, Value};

/// The value of a plain scalar.
#[must_use]
pub fn resolved(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    let (sign, rest) = signed(text);
    if matches!(rest, ".inf" | ".Inf" | ".INF") {
        return Value::Float(if sign < 0 { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if let Some(whole) = whole(rest) {
        return Value::Int(whole.saturating_mul(sign));
    }
    if let Some(number) = number(rest) {
        // -0.0 keeps its sign.
        return Value::Float(if sign < 0 { -number } else { number });
    }
    if is_date(text) {
        return Value::Date(text.to_owned());
    }
    Value::Text(text.to_owned())
}

fn signed(text: &str) -> (i64, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// A number without a point: decimal, `0b…`, `0x…`, octal with a leading 0, or base 60 (`1:30`).
fn whole(text: &str) -> Option<i64> {
    let digits = |text: &str| text.replace('_', "");
    if let Some(bits) = text.strip_prefix("0b") {
        return i64::from_str_radix(&digits(bits), 2).ok();
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return i64::from_str_radix(&digits(hex), 16).ok();
    }
    if text == "0" {
        return Some(0);
    }
    if let Some(octal) = text.strip_prefix('0') {
        return i64::from_str_radix(&digits(octal), 8).ok();
    }
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let mut parts = text.split(':');
    let mut sum: i64 = digits(parts.next()?).parse().ok()?;
    for part in parts {
        sum = sum.checked_mul(60)?.checked_add(below_60(part)?)?;
    }
    Some(sum)
}

fn below_60(text: &str) -> Option<i64> {
    let is_short = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|part| is_short && *part < 60)
}

/// A number with a point. An exponent needs a sign, so `1.0e3` is a text.
fn number(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['+', '-'])?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
    }
    let (before, after) = mantissa.split_once('.')?;
    let is_part = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let begins = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    if !is_part(before)
        || !is_part(after)
        || !(begins(before) || before.is_empty() && begins(after))
    {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let date = bytes.get(..10).is_some_and(|date| {
        date.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
    });
    let rest = bytes.get(10..).unwrap_or_default();
    let is_time = |rest: &[u8]| {
        matches!(rest.first(), Some(b'T' | b't' | b' '))
            && rest.iter().filter(|it| **it == b':').count() >= 2
    };
    date && (rest.is_empty() || is_time(rest))
}

/// A value as Python's `str` writes it, which is how Valohai passes parameters.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(whole) => whole.to_string(),
        Value::Float(number) => float(*number),
        Value::Date(text) | Value::Text(text) => text.clone(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|item| quoted(&item.value)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let pair = |(key, node): &(Key, Node)| {
                let key = Value::Text(key.text.clone());
                format!("{}: {}", quoted(&key), quoted(&node.value))
            };
            format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A value as Python's `repr` writes it.
fn quoted(value: &Value) -> String {
    match value {
        Value::Text(text) if text.contains('\'') && !text.contains('"') => format!("\"{text}\""),
        Value::Text(text) => {
            format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
        }
        other => text(other),
    }
}

/// A float as Python writes it: the shortest digits, with an exponent below 0.0001 and from 1e16.
#[must_use]
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{number}");
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

/// A value as JSON.
#[must_use]
pub fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(is) => (*is).into(),
        Value::Int(whole) => (*whole).into(),
        Value::Float(number) => (*number).into(),
        Value::Date(text) | Value::Text(text) => text.clone().into(),
        Value::List(items) => items.iter().map(|item| json(&item.value)).collect(),
        Value::Map(entries) => serde_json::Value::Object(
            entries.iter().map(|(key, node)| (key.text.clone(), json(&node.value))).collect(),
        ),
    }
}
