//! Parameters of a sweep: lists of values, and ranges of numbers.

use gpool_model::Indexes;
use gpool_wire::job_metrics::{figure, six_digits};
use serde::Serialize;

use crate::fault::Fault;
use crate::number;

/// A parameter that differs between trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name: `{lr}` in the command, `GPOOL_PARAM_LR` in the environment of a trial.
    pub name: String,
    /// Its possible values.
    #[serde(flatten)]
    pub domain: Domain,
}

/// The possible values of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// These values, at least one.
    #[serde(rename = "values")]
    Choice(Vec<String>),
    /// Numbers of a range.
    Range(Range),
}

/// Numbers from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The smallest number.
    pub low: f64,
    /// The largest number, above `low`.
    pub high: f64,
    /// Whether each order of magnitude is as likely as any other; then `low` is above 0.
    pub is_log: bool,
    /// The distance between values, above 0; `None` means any number, of integers 1.
    pub step: Option<f64>,
    /// Whether the numbers are integers.
    pub is_int: bool,
}

/// Most values of a range in a grid.
const VALUES_MAX: f64 = 100_000.0;
/// Larger integers are not exact.
const INT_MAX: f64 = 9_007_199_254_740_992.0;

impl Range {
    /// Reads `LOW..HIGH`, with `:log` or a step behind it: `1e-5..1e-1:log`, `0..1:0.1`. `None`
    /// means that the text is no range, but a value.
    ///
    /// # Errors
    /// It is a range that can't be used.
    pub fn parse(text: &str) -> Result<Option<Self>, Fault> {
        let Some((low, rest)) = text.split_once("..") else { return Ok(None) };
        let mut parts = rest.split(':');
        let high = parts.next().unwrap_or_default();
        let (low_number, high_number) = match (number::parse(low), number::parse(high)) {
            (None, None) => return Ok(None),
            (Some(low), Some(high)) => (low, high),
            (one, _) => {
                let wrong = if one.is_some() { high } else { low };
                return Err(Fault::new(format!("{wrong:?} in {text:?} is no number"), EXAMPLE));
            }
        };
        let is_int = number::is_whole(low) && number::is_whole(high);
        let mut range =
            Self { low: low_number, high: high_number, is_log: false, step: None, is_int };
        for part in parts {
            match number::parse(part) {
                _ if part == "log" => range.is_log = true,
                Some(step) => {
                    range.step = Some(step);
                    range.is_int &= number::is_whole(part);
                }
                None => {
                    let what = format!("{part:?} in {text:?} is neither log nor a step");
                    return Err(Fault::new(what, EXAMPLE));
                }
            }
        }
        range.check().map(Some)
    }

    /// Checks a range.
    ///
    /// # Errors
    /// It has no values, or its parts exclude each other.
    pub fn check(self) -> Result<Self, Fault> {
        let text = self.text();
        let fault = |why: &str| Err(Fault::new(format!("the range {text} {why}"), EXAMPLE));
        if self.low >= self.high {
            return fault("does not ascend");
        }
        if self.is_log && self.low <= 0.0 {
            return fault("has no logarithmic scale: it does not begin above 0");
        }
        if self.is_int && self.low.abs().max(self.high.abs()) > INT_MAX {
            return fault("has integers that are too large");
        }
        match self.step {
            Some(_) if self.is_log => fault("has a step and a logarithmic scale"),
            Some(step) if !(step > 0.0 && step <= self.high - self.low) => {
                fault("has a step that does not fit in")
            }
            _ => Ok(self),
        }
    }

    fn text(&self) -> String {
        format!("{}..{}", figure(self.low), figure(self.high))
    }

    /// The distance between its values, if a grid can have them.
    fn grid_step(&self) -> Option<f64> {
        self.step.or((self.is_int && !self.is_log).then_some(1.0))
    }

    /// The number of its values, without the last fraction of a step.
    pub(crate) fn n_values(&self) -> Option<f64> {
        // The sum of rounding errors is far below a thousandth of a step.
        self.grid_step().map(|step| ((self.high - self.low) / step + 0.001).floor() + 1.0)
    }

    fn values(&self) -> Option<Vec<String>> {
        let n = self.n_values().filter(|n| *n <= VALUES_MAX)?;
        Some((0u32..).map(f64::from).take_while(|at| *at < n).map(|at| self.at(at)).collect())
    }

    /// The value after some steps.
    fn at(&self, n_steps: f64) -> String {
        let step = self.grid_step().unwrap_or_default();
        self.value_text(n_steps.mul_add(step, self.low))
    }

    fn value_text(&self, value: f64) -> String {
        if self.is_int {
            return format!("{}", value.round().clamp(self.low, self.high));
        }
        // Rounding must not leave the range.
        figure(six_digits(value).clamp(self.low, self.high))
    }

    /// Draws a value.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> String {
        let part = random.f64();
        if let Some(n) = self.n_values() {
            return self.at((part * n).floor().min(n - 1.0));
        }
        // Of integers, each has a range of length 1 on the linear scale.
        let margin = if self.is_int { 0.5 } else { 0.0 };
        let (low, high) = ((self.low - margin).ln(), (self.high + margin).ln());
        let value = match self.is_log {
            true => part.mul_add(high - low, low).exp(),
            false => part.mul_add(self.high - self.low, self.low),
        };
        self.value_text(value)
    }
}

const EXAMPLE: &str = "lr=1e-5..1e-1:log, dropout=0..0.5, layers=2..8 or width=64..512:64";

impl Domain {
    /// Reads the values of a parameter: one text may be a range.
    ///
    /// # Errors
    /// It is a range that can't be used.
    pub fn parse(values: Vec<String>) -> Result<Self, Fault> {
        if let [text] = &values[..]
            && let Some(range) = Range::parse(text)?
        {
            return Ok(Self::Range(range));
        }
        Ok(Self::Choice(values))
    }

    /// Returns all values in order; `None` for a range without steps.
    #[must_use]
    pub fn values(&self) -> Option<Vec<String>> {
        match self {
            Self::Choice(values) => Some(values.clone()),
            Self::Range(range) => range.values(),
        }
    }

    /// The number of values, if it is finite.
    pub(crate) fn n_values(&self) -> Option<f64> {
        match self {
            Self::Choice(values) => Some(values.len() as f64),
            Self::Range(range) if range.is_int && range.is_log => {
                Some(range.high - range.low + 1.0)
            }
            Self::Range(range) => range.n_values(),
        }
    }

    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> String {
        match self {
            Self::Choice(values) => random.choice(values).cloned().unwrap_or_default(),
            Self::Range(range) => range.draw(random),
        }
    }
}

/// The number of combinations of a grid.
///
/// # Errors
/// A range has no steps, or the grid has more trials than an array can have elements.
pub fn n_combinations(parameters: &[Parameter]) -> Result<u64, Fault> {
    let mut n = 1u64;
    for parameter in parameters {
        let name = &parameter.name;
        let Some(values) = parameter.domain.values() else {
            let what = format!("the range of {name} has no steps for a grid, or too many");
            let advice = format!("--param {name}=0..1:0.1, or --method random --trials 50");
            return Err(Fault::new(what, advice));
        };
        n = n.saturating_mul(values.len() as u64);
    }
    match n <= u64::from(Indexes::ELEMENTS_MAX) {
        true => Ok(n),
        false => {
            let what =
                format!("the grid has {n} trials; an array can have {}", Indexes::ELEMENTS_MAX);
            Err(Fault::new(what, "--method random --trials 50"))
        }
    }
}
