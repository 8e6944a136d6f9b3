//! One figure: a measured value and its target.

use serde::Serialize;

/// The target of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Below this value.
    Below(f64),
    /// Above this value.
    Above(f64),
    /// Exactly this value.
    Exactly(f64),
}

/// A measured value.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// A stable name for programs.
    pub name: &'static str,
    /// A description for people.
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
    /// The target; `None` if the figure only explains another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Whether the target is reached; `None` without a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<bool>,
    /// The single measurements, for plots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

impl Figure {
    /// A figure without a target.
    #[must_use]
    pub fn new(
        name: &'static str,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Self {
        Self { name, what: what.into(), value, unit, goal: None, reached: None, samples: vec![] }
    }

    /// Sets the target: below this value.
    #[must_use]
    pub fn below(self, goal: f64) -> Self {
        let reached = Some(self.value < goal);
        Self { goal: Some(Goal::Below(goal)), reached, ..self }
    }

    /// Sets the target: above this value.
    #[must_use]
    pub fn above(self, goal: f64) -> Self {
        let reached = Some(self.value > goal);
        Self { goal: Some(Goal::Above(goal)), reached, ..self }
    }

    /// Sets the target: exactly this value.
    #[must_use]
    pub fn exactly(self, goal: f64) -> Self {
        let reached = Some(self.value.total_cmp(&goal).is_eq());
        Self { goal: Some(Goal::Exactly(goal)), reached, ..self }
    }

    /// Adds the single measurements.
    #[must_use]
    pub fn with_samples(self, samples: &[f64]) -> Self {
        Self { samples: samples.to_vec(), ..self }
    }

    /// One line of the report.
    #[must_use]
    pub fn line(&self) -> String {
        let amount = format!("{} {}", digits(self.value), self.unit);
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::Below(goal)) => format!("below {}", digits(goal)),
            Some(Goal::Above(goal)) => format!("above {}", digits(goal)),
            Some(Goal::Exactly(goal)) => format!("exactly {}", digits(goal)),
        };
        let reached = match self.reached {
            None => "",
            Some(true) => "reached",
            Some(false) => "MISSED",
        };
        let line = format!("  {:54} {amount:>16}  {goal:14} {reached}", self.what);
        format!("{}\n", line.trim_end())
    }
}

/// A number with three digits, and without decimals from 100 on.
pub fn digits(value: f64) -> String {
    let places = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let n_digits = whole.trim_start_matches('-').len();
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let n_left = whole.len() - at;
        if n_digits > 3 && digit != '-' && n_left % 3 == 0 && n_left < n_digits {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

/// Sorted measurements, for percentiles.
#[derive(Debug, Clone)]
pub struct Ranked(Vec<f64>);

impl Ranked {
    /// Sorts the measurements.
    #[must_use]
    pub fn of(mut measured: Vec<f64>) -> Self {
        measured.sort_by(f64::total_cmp);
        Self(measured)
    }

    /// The percentile by nearest rank.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> f64 {
        let n = self.0.len();
        let ix = (n * percent).div_ceil(100).saturating_sub(1);
        self.0.get(ix.min(n.saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }

    /// All measurements, smallest first.
    #[must_use]
    pub fn all(&self) -> &[f64] {
        &self.0
    }
}
