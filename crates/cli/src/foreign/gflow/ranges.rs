//! Ranges in the values of `gbatch --param`: `1:5`, `0:1:0.1`. They include both ends. Decimals are
//! computed as whole numbers, so `0:1:0.1` has exactly eleven values.

use crate::failure::{Failure, Result};
use crate::foreign::flag::{PassedFlag, invalid};

const VALUES_MAX: i128 = 10_000;

/// Most digits before and after the point.
const DIGITS_MAX: usize = 15;

/// Expands `lr=0:1:0.5` to `lr=0,0.5,1`; other values stay as they are.
///
/// # Errors
/// The step leads away from the end, or there are too many values.
pub fn written_out(given: &PassedFlag) -> Result<String> {
    let text = given.value.trim();
    let Some((name, values)) = text.split_once('=') else { return Ok(text.to_owned()) };
    let name = name.trim();
    if values.contains(['[', ',']) {
        // gflow drops blanks around values.
        let is_list = !values.trim_start().starts_with('[');
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        return Ok(if is_list { format!("{name}={}", values.join(",")) } else { text.to_owned() });
    }
    let parts: Option<Vec<Decimal>> = values.split(':').map(Decimal::read).collect();
    match parts.as_deref() {
        Some([first, last]) => {
            let step = if first.is_above(*last) { "-1" } else { "1" };
            let step = Decimal::read(step).expect("a number");
            Ok(format!("{name}={}", range(*first, *last, step, given)?))
        }
        Some([first, last, step]) => Ok(format!("{name}={}", range(*first, *last, *step, given)?)),
        _ => Ok(format!("{name}={values}")),
    }
}

/// A decimal number: all its digits, and the number of digits after the point.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: i128,
    n_after: u32,
}

impl Decimal {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (before, after) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let after = after.trim_end_matches('0');
        let is_number =
            |part: &str| part.len() <= DIGITS_MAX && part.bytes().all(|byte| byte.is_ascii_digit());
        if unsigned.is_empty() || unsigned == "." || !is_number(before) || !is_number(after) {
            return None;
        }
        let digits: i128 = format!("0{before}{after}").parse().ok()?;
        let digits = if text.starts_with('-') { -digits } else { digits };
        Some(Self { digits, n_after: u32::try_from(after.len()).ok()? })
    }

    /// The digits, with `n_after` of them after the point.
    fn with_after(self, n_after: u32) -> i128 {
        self.digits * 10_i128.pow(n_after - self.n_after)
    }

    fn is_above(self, other: Self) -> bool {
        let n_after = self.n_after.max(other.n_after);
        self.with_after(n_after) > other.with_after(n_after)
    }
}

fn range(first: Decimal, last: Decimal, step: Decimal, given: &PassedFlag) -> Result<String> {
    let bad = |why: &str| -> Failure { invalid(given, why).tip("--param lr=0:1:0.1") };
    let n_after = first.n_after.max(last.n_after).max(step.n_after);
    let [first_at, last_at, step_at] = [first, last, step].map(|part| part.with_after(n_after));
    if step_at == 0 || (last_at - first_at).signum() * step_at.signum() < 0 {
        return Err(bad("is a range whose step never reaches its end"));
    }
    if (last_at - first_at) / step_at >= VALUES_MAX {
        return Err(bad("is a range of more than 10000 values"));
    }
    let n_shown = first.n_after.max(step.n_after);
    let values = (0..=(last_at - first_at) / step_at)
        .map(|n| format_value(first_at + n * step_at, n_after, n_shown));
    Ok(values.collect::<Vec<_>>().join(","))
}

/// Formats a value: whole numbers without a point, others with as many digits as the step.
fn format_value(digits: i128, n_after: u32, n_shown: u32) -> String {
    let one = 10_i128.pow(n_after);
    if digits % one == 0 {
        return (digits / one).to_string();
    }
    let sign = if digits < 0 { "-" } else { "" };
    let (whole, rest) = (digits.abs() / one, digits.abs() % one);
    let rest = rest / 10_i128.pow(n_after - n_shown);
    let width = usize::try_from(n_shown).unwrap_or(DIGITS_MAX);
    format!("{sign}{whole}.{rest:0width$}")
}
