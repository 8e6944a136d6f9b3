//! Converts values to positions along an axis, and chooses ticks.

/// Milliseconds per hour.
pub const HOUR: f64 = 3_600_000.0;
/// Milliseconds per day.
pub const DAY: f64 = 24.0 * HOUR;

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Linear between two values; the first may be the larger.
    Linear(f64, f64),
    /// Logarithmic between two values above zero.
    Log(f64, f64),
}

impl Scale {
    /// The position of a value, from 0 to 1; values outside are at an end.
    #[must_use]
    pub fn part(self, value: f64) -> f64 {
        let part = match self {
            Self::Linear(from, to) => (value - from) / (to - from),
            Self::Log(from, to) => (value.max(from).ln() - from.ln()) / (to.ln() - from.ln()),
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A scale with its ticks.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub label: String,
    pub scale: Scale,
    /// The values of the ticks with their texts.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis with about `n_ticks` ticks, formatted by `text`.
    #[must_use]
    pub fn linear(
        label: &str,
        (from, to): (f64, f64),
        n_ticks: usize,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let ticks = round(from, to, n_ticks).into_iter().map(|at| (at, text(at))).collect();
        Self { label: label.to_owned(), scale: Scale::Linear(from, to), ticks }
    }

    /// A linear axis of fractions, shown in percent.
    #[must_use]
    pub fn percent(label: &str, (from, to): (f64, f64), n_ticks: usize) -> Self {
        let of_hundred = Self::linear(label, (from * 100.0, to * 100.0), n_ticks, plain);
        let ticks = of_hundred.ticks.into_iter().map(|(at, text)| (at / 100.0, text + " %"));
        Self { scale: Scale::Linear(from, to), ticks: ticks.collect(), ..of_hundred }
    }

    /// An axis of time since an event, in milliseconds; the label names the unit.
    #[must_use]
    pub fn time(since: &str, (from, to): (f64, f64)) -> Self {
        let (unit, name) = match to - from {
            span if span > 2.0 * DAY => (DAY, "days"),
            span if span > 2.0 * HOUR => (HOUR, "hours"),
            span if span > 120_000.0 => (60_000.0, "minutes"),
            _ => (1_000.0, "seconds"),
        };
        let steps: &[f64] = match name {
            "days" => &[1.0, 2.0, 5.0, 7.0, 14.0, 28.0, 56.0],
            "hours" => &[0.5, 1.0, 2.0, 3.0, 6.0, 12.0],
            _ => &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0],
        };
        let span = (to - from) / unit;
        let step = steps.iter().copied().find(|step| span / step <= 8.0).unwrap_or(span / 6.0);
        let ticks = multiples(from / unit, to / unit, step);
        let ticks = ticks.into_iter().map(|at| (at * unit, plain(at))).collect();
        Self { label: format!("{name} since {since}"), scale: Scale::Linear(from, to), ticks }
    }

    /// A logarithmic axis of lengths of time from one second on, in milliseconds.
    #[must_use]
    pub fn spans(label: &str, longest: f64) -> Self {
        const SPANS: [(f64, &str); 9] = [
            (1_000.0, "1 s"),
            (10_000.0, "10 s"),
            (60_000.0, "1 min"),
            (600_000.0, "10 min"),
            (HOUR, "1 h"),
            (6.0 * HOUR, "6 h"),
            (DAY, "1 d"),
            (7.0 * DAY, "7 d"),
            (30.0 * DAY, "30 d"),
        ];
        let to = longest.max(10_000.0) * 1.2;
        let ticks = SPANS.iter().filter(|(at, _)| *at <= to);
        let ticks = ticks.map(|(at, text)| (*at, (*text).to_owned())).collect();
        Self { label: label.to_owned(), scale: Scale::Log(SPANS[0].0, to), ticks }
    }
}

/// A number without trailing zeros.
#[must_use]
pub fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// About `n` round numbers in a range.
fn round(from: f64, to: f64, n: usize) -> Vec<f64> {
    let rough = (to - from) / n.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.into_iter().map(|it| it * power).find(|step| *step >= rough * 0.999);
    multiples(from, to, step.unwrap_or(rough))
}

fn multiples(from: f64, to: f64, step: f64) -> Vec<f64> {
    let first = (from / step - 1e-6).ceil();
    let last = (to / step + 1e-6).floor();
    let n = if last >= first { (last - first).min(100.0) } else { return Vec::new() };
    (0_u8..).map(f64::from).take_while(|ix| *ix <= n).map(|ix| (first + ix) * step).collect()
}
