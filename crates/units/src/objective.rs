//! The metric that tells which element of an array, such as a trial of a sweep, is the best.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::parse::ParseError;

/// A metric that jobs report, and which of its values is the best. Written `loss:min`.
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
}

impl Goal {
    /// Returns `min` or `max`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// The value of a metric with 32 bits, as metrics are stored. It is never infinite or NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MetricValue(u32);

impl MetricValue {
    /// Returns the nearest value with 32 bits; `None` if that is not finite.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it is rounded")]
    pub fn new(value: f64) -> Option<Self> {
        let value = value as f32;
        value.is_finite().then_some(Self(value.to_bits()))
    }

    /// Returns the value.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from(f32::from_bits(self.0))
    }
}

impl Serialize for MetricValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f32(f32::from_bits(self.0))
    }
}

impl<'de> Deserialize<'de> for MetricValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("the value of a metric is finite");
        Self::new(value).ok_or_else(wrong)
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
    /// Reads `NAME:min` or `NAME:max`; `minimize` and `maximize` are also known.
    ///
    /// # Errors
    /// The position of the malformed part.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let bad = |position| {
            let what = "a metric and its goal: NAME:min or NAME:max";
            ParseError::new(what, text, position, "loss:min")
        };
        // Names may have colons.
        let (metric, goal) = text.rsplit_once(':').ok_or_else(|| bad(text.len()))?;
        let goal = match goal {
            "min" | "minimize" => Goal::Min,
            "max" | "maximize" => Goal::Max,
            _ => return Err(bad(metric.len() + 1)),
        };
        match is_metric_name(metric) {
            true => Ok(Self { metric: metric.to_owned(), goal }),
            false => Err(bad(0)),
        }
    }

    /// Whether a value is better than another. A value that is not a number is never better.
    #[must_use]
    pub fn is_better(&self, value: f64, other: f64) -> bool {
        match self.goal {
            Goal::Min => value < other,
            Goal::Max => value > other,
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.metric, self.goal.as_str())
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
