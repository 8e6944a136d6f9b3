//! Reads values that users write into units. Every error names the value, the position and a valid
//! example.

use thiserror::Error;

use crate::unit::{Bytes, MilliCpu, MilliGpu, Millis};

/// Why a value is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{value:?} is not {expected}{}; write, for example, {example}", at(*.position, .value))]
pub struct ParseError {
    /// The expected kind of value: `a length of time`.
    pub expected: &'static str,
    /// The text.
    pub value: String,
    /// The byte of the error.
    pub position: usize,
    /// A valid value.
    pub example: &'static str,
}

fn at(position: usize, value: &str) -> String {
    match value.get(position..).and_then(|rest| rest.chars().next()) {
        Some(found) if position > 0 => format!(" (position {}: {found:?})", position + 1),
        _ => String::new(),
    }
}

impl ParseError {
    /// The longest part of an invalid value that a message repeats, in characters.
    pub const VALUE_CHARS_MAX: usize = 80;

    /// Returns an error at this byte of the value.
    pub fn new(
        expected: &'static str,
        value: &str,
        position: usize,
        example: &'static str,
    ) -> Self {
        let value = value.chars().take(Self::VALUE_CHARS_MAX).collect();
        Self { expected, value, position, example }
    }
}

/// Reads an amount of memory: `20G`, `512M`, `1.5T`, `20GiB`, `1000000B`. `G` is GiB. A number
/// without a unit is ambiguous and therefore an error.
///
/// # Errors
/// The position of the first character that can't be part of an amount.
pub fn bytes(text: &str) -> Result<Bytes, ParseError> {
    let bad = |position| ParseError::new("an amount of memory", text, position, "20G or 512M");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let shift = match text[digits..].trim_start().to_ascii_lowercase().as_str() {
        "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(bad(digits)),
    };
    let (whole, fraction) = decimal(&text[..digits], 9).ok_or_else(|| bad(0))?;
    let unit = 1u128 << shift;
    let total = u128::from(whole) * unit + u128::from(fraction) * unit / 1_000_000_000;
    u64::try_from(total).map(Bytes::new).map_err(|_| bad(0))
}

/// Writes an amount of memory so that [`bytes`] reads the same amount: `20G`, `1536M`, `7B`.
pub fn exact_bytes(amount: Bytes) -> String {
    let amount = amount.get();
    let units = [(30, 'G'), (20, 'M'), (10, 'K')];
    let exact = units.into_iter().find(|(shift, _)| amount.is_multiple_of(1 << shift));
    let (shift, unit) = exact.unwrap_or((0, 'B'));
    format!("{}{unit}", amount >> shift)
}

/// Reads a number of CPU cores: `4`, `0.5`.
///
/// # Errors
/// The position of the first character that can't be part of one; more than three decimals.
pub fn cpus(text: &str) -> Result<MilliCpu, ParseError> {
    thousandths(text, "a number of CPU cores").map(MilliCpu::new)
}

/// Reads a number of devices: `4`, `0.5`.
///
/// # Errors
/// The position of the first character that can't be part of one; more than three decimals.
pub fn gpus(text: &str) -> Result<MilliGpu, ParseError> {
    thousandths(text, "a number of GPUs").map(MilliGpu::new)
}

/// Reads a number with at most three decimals as thousandths; `expected` names it in the error.
///
/// # Errors
/// The position of the first character that can't be part of one.
pub fn thousandths(text: &str, expected: &'static str) -> Result<u64, ParseError> {
    let bad = |position| ParseError::new(expected, text, position, "4 or 0.5");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    if end != text.len() {
        return Err(bad(end));
    }
    let (whole, fraction) = decimal(text, 3).ok_or_else(|| bad(0))?;
    let total = whole.checked_mul(1000).and_then(|cores| cores.checked_add(fraction));
    total.ok_or_else(|| bad(0))
}

/// Reads a duration: `1h30m`, `45s`, `2d`, `HH:MM:SS`, `M:SS`, `2-00:00:00`. A bare number is
/// minutes, as in Slurm and gflow.
///
/// # Errors
/// The position of the first character that can't be part of one.
pub fn span(text: &str) -> Result<Millis, ParseError> {
    let bad = |position| ParseError::new("a length of time", text, position, "1h30m or 45s");
    if text.is_empty() {
        return Err(bad(0));
    }
    if text.starts_with('-') {
        return Err(ParseError::new("a positive length of time", text, 0, "1h30m or 45s"));
    }
    if let Some(strange) = text.find(|c: char| !c.is_ascii_alphanumeric() && !":-.".contains(c)) {
        return Err(bad(strange));
    }
    let millis = if text.contains([':', '-']) {
        clock(text).ok_or_else(|| bad(0))?
    } else if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse::<u64>().ok().and_then(|n| n.checked_mul(60_000)).ok_or_else(|| bad(0))?
    } else {
        worded(text).map_err(bad)?
    };
    Ok(Millis::new(millis))
}

/// Reads `1h30m`: numbers, each with its unit, largest first. The error is the position.
fn worded(text: &str) -> Result<u64, usize> {
    let mut total: u64 = 0;
    let mut position = 0;
    let mut last = u64::MAX;
    while position < text.len() {
        let rest = &text[position..];
        let n_digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(position)?;
        let number: u64 = rest[..n_digits].parse().map_err(|_| position)?;
        let unit_at = position + n_digits;
        let word = &text[unit_at..];
        let word = &word[..word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len())];
        let unit = match word.to_ascii_lowercase().as_str() {
            "ms" => 1,
            "s" | "sec" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(unit_at),
        };
        if unit >= last {
            return Err(unit_at);
        }
        last = unit;
        total = number.checked_mul(unit).and_then(|n| total.checked_add(n)).ok_or(position)?;
        position = unit_at + word.len();
    }
    Ok(total)
}

/// Slurm's forms: `M:SS`, `H:MM:SS`, `D-H`, `D-H:MM`, `D-H:MM:SS`.
fn clock(text: &str) -> Option<u64> {
    let number = |part: &str| -> Option<u64> {
        (!part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse().ok())?
    };
    let (days, rest) = match text.split_once('-') {
        None => (None, text),
        Some((days, rest)) => (Some(number(days)?), rest),
    };
    let parts: Vec<u64> = rest.split(':').map(number).collect::<Option<_>>()?;
    let below_60 = |n: u64| (n < 60).then_some(n);
    let seconds = match (days, parts.as_slice()) {
        (None, [m, s]) => m * 60 + below_60(*s)?,
        (None, [h, m, s]) => h * 3600 + below_60(*m)? * 60 + below_60(*s)?,
        (Some(d), [h]) => d * 86_400 + h * 3600,
        (Some(d), [h, m]) => d * 86_400 + h * 3600 + below_60(*m)? * 60,
        (Some(d), [h, m, s]) => d * 86_400 + h * 3600 + below_60(*m)? * 60 + below_60(*s)?,
        _ => return None,
    };
    seconds.checked_mul(1000)
}

/// A decimal number as its integer part and its fraction in units of `10^-places`; `None` if
/// malformed, too large, or with more decimals.
pub fn decimal(text: &str, places: u32) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let n_digits = u32::try_from(fraction.len()).ok().filter(|n| *n <= places)?;
    let scaled = match fraction {
        "" => 0,
        _ => fraction.parse::<u64>().ok()? * 10u64.pow(places - n_digits),
    };
    Some((whole.parse().ok()?, scaled))
}

/// A non-negative integer: `8`.
///
/// # Errors
/// It is not an integer.
pub fn count(text: &str) -> Result<u64, ParseError> {
    text.parse().map_err(|_| ParseError::new("a whole number", text, 0, "8"))
}
