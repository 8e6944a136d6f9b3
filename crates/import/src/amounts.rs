//! Memory, cores and times of other tools as values of flags.

use gpool_yaml::{Node, YamlError};

use crate::keys::{text, wrong};

const GIB: u128 = 1 << 30;
const MIB: u128 = 1 << 20;
/// More memory than any machine has; a larger amount is a typing error.
const BYTES_MAX: u128 = 1 << 60;

/// Units of memory in bytes; those of Kubernetes without `i` are decimal, all others binary.
fn unit(name: &str, is_decimal: bool) -> Option<u128> {
    let lower = name.to_ascii_lowercase();
    let letter = lower.trim_end_matches('b').trim_end_matches('i');
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let base: u128 = if is_decimal && !lower.contains('i') { 1000 } else { 1024 };
    Some(base.pow(power))
}

/// Bytes of a text such as `16GB`; a number alone counts in `default` bytes.
pub(crate) fn bytes(text: &str, default: u128, is_decimal: bool) -> Option<u128> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, name) = text.split_at(at);
    let name = name.trim();
    let unit = if name.is_empty() { default } else { unit(name, is_decimal)? };
    times(number, unit).filter(|bytes| *bytes <= BYTES_MAX)
}

/// A decimal number times a unit, rounded up.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 9 || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
    Some(digits.checked_mul(unit)?.div_ceil(scale))
}

/// Bytes as gpool writes them, in whole MiB.
pub(crate) fn size(bytes: u128) -> String {
    if bytes.is_multiple_of(GIB) {
        return format!("{}G", bytes / GIB);
    }
    format!("{}M", bytes.div_ceil(MIB))
}

/// The value of `--mem`; a number alone counts in `default` bytes.
pub(crate) fn memory(
    node: &Node,
    path: &str,
    default: u128,
    is_decimal: bool,
) -> Result<String, YamlError> {
    let found = bytes(&text(node, path)?, default, is_decimal).filter(|bytes| *bytes > 0);
    found.map(size).ok_or_else(|| wrong(node, path, "an amount of memory such as 16GB"))
}

/// A GiB, the unit of numbers without one in dstack and SkyPilot.
pub(crate) const GIB_EACH: u128 = GIB;

/// A number of cores: `4`, `0.5`, and in Kubernetes `500m`.
pub(crate) fn cores(node: &Node, path: &str) -> Result<String, YamlError> {
    let written = text(node, path)?;
    let wrong = || wrong(node, path, "a number of cores such as 4");
    let number = match written.trim().strip_suffix('m') {
        Some(milli) => {
            let milli: u32 = milli.parse().map_err(|_| wrong())?;
            f64::from(milli) / 1000.0
        }
        None => written.trim().parse().map_err(|_| wrong())?,
    };
    if !number.is_finite() || number <= 0.0 || number > 1_000_000.0 {
        return Err(wrong());
    }
    Ok(format!("{number}"))
}

/// A time such as `2h`, `1h30m` or `90` (seconds), as a value of `--time`.
pub(crate) fn time(node: &Node, path: &str) -> Result<String, YamlError> {
    let written = text(node, path)?;
    let written = written.trim();
    let seconds = seconds(written).filter(|seconds| *seconds > 0);
    seconds.map(span).ok_or_else(|| wrong(node, path, "a time such as 2h"))
}

/// Seconds in the largest unit that divides them.
fn span(seconds: u64) -> String {
    match seconds {
        seconds if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        seconds if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// Seconds of a text such as `1d2h`; a number alone counts in seconds.
fn seconds(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds);
    }
    let mut sum: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(|c: char| !c.is_ascii_digit())?;
        let (digits, tail) = rest.split_at(at);
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (name, next) = tail.split_at(end);
        let each = match name.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return None,
        };
        let part = digits.parse::<u64>().ok()?.checked_mul(each)?;
        sum = sum.checked_add(part)?;
        rest = next.trim_start();
    }
    Some(sum)
}
