//! The metric that tells which element of an array, such as a trial of a sweep, is the best.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::parse::ParseError;

/// A metric that jobs report, and which of its values is the best. Written `loss:min`, or
/// `accuracy:0.95` for the value closest to 0.95.
///
/// The scheduler does not read it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Objective {
    /// Name of the metric, as the jobs report it.
    pub metric: String,
    /// Which value is the best.
    pub goal: Goal,
}

/// Which value of a metric is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Goal {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The closest to this one.
    Near(MetricValue),
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Near(value) => f.write_str(&value.decimal()),
        }
    }
}

/// The value of a metric, to six digits: `554242e-6`. It is never infinite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MetricValue {
    digits: i32,
    exponent: i16,
}

impl MetricValue {
    /// Most digits; the rest of a longer number is cut off.
    const DIGITS_MAX: usize = 6;

    /// Reads a decimal number: `0.25`, `-3`, `5.54242e-1`. `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let mut exponent: i16 = exponent.parse().ok()?;
        let (sign, number) = match number.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, number),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all = whole.bytes().chain(fraction.bytes());
        if whole.is_empty() || !all.clone().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        exponent = exponent.checked_sub(i16::try_from(fraction.len()).ok()?)?;
        let (mut digits, mut n_digits) = (0i32, 0);
        for byte in all {
            if n_digits == Self::DIGITS_MAX {
                exponent = exponent.checked_add(1)?;
                continue;
            }
            digits = digits * 10 + i32::from(byte - b'0');
            n_digits += usize::from(digits != 0);
        }
        Some(Self { digits: sign * digits, exponent })
    }

    /// The number as people write it: `0.95`, or `95e20` if it has many zeros.
    #[must_use]
    pub fn decimal(self) -> String {
        let n_places = match usize::try_from(-i32::from(self.exponent)) {
            Ok(n @ 1..=9) => n,
            Ok(0) => return self.digits.to_string(),
            _ => return self.to_string(),
        };
        let sign = if self.digits < 0 { "-" } else { "" };
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = n_places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - n_places);
        format!("{sign}{whole}.{fraction}")
    }
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}e{}", self.digits, self.exponent)
    }
}

impl TryFrom<String> for MetricValue {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text).ok_or_else(|| ParseError::new("a number", &text, 0, "0.25"))
    }
}

impl From<MetricValue> for String {
    fn from(value: MetricValue) -> Self {
        value.to_string()
    }
}

/// Most bytes of the name of a metric.
const NAME_MAX: usize = 64;

/// Whether this is a valid name of a metric: ASCII letters, digits and `_ . / : @ % + -`.
#[must_use]
pub fn is_metric_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:@%+-".contains(&byte);
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(fits)
}

impl Objective {
    /// Reads `NAME:min`, `NAME:max` or `NAME:VALUE`; `minimize` and `maximize` are also known.
    ///
    /// # Errors
    /// The position of the malformed part.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let bad = |position| {
            let what = "a metric and its goal: NAME:min, NAME:max or NAME:VALUE";
            ParseError::new(what, text, position, "loss:min")
        };
        // Names may have colons.
        let (metric, goal) = text.rsplit_once(':').ok_or_else(|| bad(text.len()))?;
        let goal = match goal {
            "min" | "minimize" => Goal::Min,
            "max" | "maximize" => Goal::Max,
            text => Goal::Near(MetricValue::parse(text).ok_or_else(|| bad(metric.len() + 1))?),
        };
        match is_metric_name(metric) {
            true => Ok(Self { metric: metric.to_owned(), goal }),
            false => Err(bad(0)),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.metric, self.goal)
    }
}

impl TryFrom<String> for Objective {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.to_string()
    }
}
