//! A chart with axes: units beside it, times below it. Only the lines are stretched to the width of
//! the page, and texts are not.

use std::fmt::Write as _;

use askama::Template;
use gpool_model::Bytes;

use crate::text::span;

/// The width of the drawn lines.
pub const WIDTH: usize = 600;
/// The heights of charts.
pub const SMALL: usize = 56;
pub const LARGE: usize = 150;
/// Most marks on the time axis.
const TICKS_MAX: u64 = 5;
/// Distances of the marks in seconds.
const STEPS: [u64; 26] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    172_800, 432_000, 604_800, 1_209_600, 2_592_000, 7_776_000, 15_552_000, 31_104_000,
];
const GIB: f64 = 1_073_741_824.0;

/// A vertical axis: its end, and the distance of its marks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    from: f64,
    top: f64,
    step: f64,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Values from 0 to 1.
    Percent,
    Bytes,
    /// Bytes a second.
    Rate,
    Watts,
    Cores,
    Gpus,
    /// A number of the user.
    Plain,
}

impl Unit {
    pub fn text(self, value: f64) -> String {
        let short = |value: f64| {
            let places = if value.fract().abs() < 0.001 { 0 } else { 1 };
            format!("{value:.places$}")
        };
        let noun = |n: String, of: &str| format!("{n} {of}{}", if n == "1" { "" } else { "s" });
        match self {
            Self::Percent => format!("{:.0} %", value * 100.0),
            Self::Bytes => Bytes::new(whole(value)).to_string(),
            Self::Rate => format!("{}/s", Bytes::new(whole(value))),
            Self::Watts => format!("{value:.0} W"),
            Self::Cores => noun(short(value), "core"),
            Self::Gpus => noun(short(value), "GPU"),
            Self::Plain => gpool_wire::job_metrics::figure(value),
        }
    }
}

impl Scale {
    /// From zero to at least this value, with marks at round numbers.
    pub fn to(most: f64, unit: Unit) -> Self {
        let base = match unit {
            Unit::Bytes | Unit::Rate if most >= GIB => GIB,
            Unit::Bytes | Unit::Rate => 1_048_576.0,
            Unit::Percent => return Self { from: 0.0, top: 1.0, step: 0.5, unit },
            _ => 1.0,
        };
        let least = match unit {
            Unit::Gpus | Unit::Cores => 1.0,
            _ => 0.001,
        };
        let most = (most / base).max(least);
        let step = match unit {
            // Small numbers of GPUs are the top of their chart.
            Unit::Gpus if most <= 64.0 => (most / 2.0).ceil(),
            unit => round(most / 2.0, unit == Unit::Gpus),
        };
        let top = (most / step - 1e-9).ceil().max(1.0) * step;
        Self { from: 0.0, top: top * base, step: step * base, unit }
    }

    /// From zero to a known limit.
    pub fn up_to(most: f64, unit: Unit) -> Self {
        Self { from: 0.0, top: most, step: most / 2.0, unit }
    }

    /// From the least to the largest value.
    pub fn between(least: f64, most: f64) -> Self {
        let step = round(((most - least) / 2.0).max(most.abs() / 1e6).max(1e-9), false);
        let from = (least / step + 1e-9).floor() * step;
        let top = ((most / step - 1e-9).ceil() * step).max(from + step);
        Self { from, top, step, unit: Unit::Plain }
    }

    fn part(self, value: f64) -> f64 {
        ((value - self.from) / (self.top - self.from)).clamp(0.0, 1.0)
    }

    /// The marks with their distance from the top.
    fn marks(self, height: usize) -> Vec<(String, String)> {
        let n = ((self.top - self.from) / self.step).round();
        let mut marks = Vec::new();
        let mut ix = 0.0;
        while ix <= n && marks.len() < 8 {
            let value = self.from + ix * self.step;
            let y = TOP + float(height) * (1.0 - self.part(value));
            marks.push((format!("{y:.0}"), self.unit.text(value)));
            ix += 1.0;
        }
        marks
    }
}

/// The smallest round number that is at least this one.
fn round(value: f64, is_whole: bool) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|it| it * power);
    let fits = |step: &f64| *step >= value - 1e-9 && (!is_whole || step.fract() == 0.0);
    let found = steps.into_iter().find(fits).unwrap_or(value);
    if is_whole { found.max(1.0).ceil() } else { found }
}

/// The space above the lines, for the first text.
const TOP: f64 = 8.0;

/// Values over time, to draw.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The time of the first point, and between two points, in milliseconds.
    pub start_ms: u64,
    pub step_ms: u64,
    pub n_points: usize,
    /// Whether times count backwards from now; otherwise from the start.
    pub is_live: bool,
}

impl Times {
    /// The marks of the time axis: places in percent, texts and classes.
    pub fn marks(self) -> Vec<(String, String, &'static str)> {
        let all = self.step_ms * self.n_points as u64 / 1000;
        let Some(step) = STEPS.into_iter().find(|step| all / step < TICKS_MAX) else {
            return Vec::new();
        };
        if all == 0 {
            return Vec::new();
        }
        let mark = |n: u64| {
            let at = n * step;
            let (from_left, text) = match (self.is_live, at) {
                (true, 0) => (all, "now".to_owned()),
                (true, at) => (all - at, format!("−{}", span(at))),
                (false, 0) => (0, "start".to_owned()),
                (false, at) => (at, span(at)),
            };
            let permille = from_left * 1000 / all;
            let class = match permille {
                0..20 => "first",
                981.. => "last",
                _ => "",
            };
            (format!("{}.{}", permille / 10, permille % 10), text, class)
        };
        (0..=all / step).map(mark).collect()
    }
}

/// A drawn series.
#[derive(Debug, Clone)]
pub struct Layer {
    pub class: &'static str,
    pub path: String,
}

/// An event at its place on the time axis, in percent.
#[derive(Debug, Clone)]
pub struct Mark {
    pub x: String,
    pub text: String,
}

#[derive(Debug, Clone, Template)]
#[template(path = "part/plot.html")]
pub struct Plot {
    pub label: String,
    height: usize,
    scale_width: usize,
    ys: Vec<(String, String)>,
    xs: Vec<(String, String, &'static str)>,
    layers: Vec<Layer>,
    marks: Vec<Mark>,
    times: Times,
    /// The values for people, separated by bars: `cursor.js` shows one of them.
    values: String,
}

impl Plot {
    pub fn new(label: String, height: usize, scale: Scale, times: Times) -> Self {
        let ys = scale.marks(height);
        let longest = ys.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        Self {
            label,
            height,
            scale_width: longest * 7 + 12,
            ys,
            xs: times.marks(),
            layers: Vec::new(),
            marks: Vec::new(),
            times,
            values: String::new(),
        }
    }

    /// With an area or a line.
    #[must_use]
    pub fn with(mut self, class: &'static str, path: String) -> Self {
        self.layers.push(Layer { class, path });
        self
    }

    #[must_use]
    pub fn marked(mut self, marks: &[Mark]) -> Self {
        self.marks = marks.to_vec();
        self
    }

    /// With the values of the points for the cursor.
    #[must_use]
    pub fn valued(mut self, values: impl Iterator<Item = Option<String>>) -> Self {
        let values: Vec<String> = values.map(Option::unwrap_or_default).collect();
        self.values = values.join("|");
        self
    }

    fn whole_height(&self) -> usize {
        self.height + 28
    }

    fn text_y(&self) -> usize {
        self.height + 24
    }
}

/// An area between two values of each point; gaps where a value is missing.
pub fn area(points: &[Option<(f64, f64)>], scale: Scale, height: usize) -> String {
    let mut path = String::new();
    let mut at = 0;
    for run in points.chunk_by(|one, next| one.is_some() == next.is_some()) {
        let known: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
        if !known.is_empty() {
            let y = |value: f64| float(height) * (1.0 - scale.part(value));
            let edge = |path: &mut String, ix: usize, value: f64, first: char, is_back: bool| {
                let x = |ix: usize| (at + ix) * WIDTH / points.len();
                let (from, to) = if is_back { (ix + 1, ix) } else { (ix, ix + 1) };
                let y = y(value);
                // Writing into a string can't fail.
                let _ = write!(path, "{first}{} {y:.1}H{}", x(from), x(to));
            };
            for (ix, (_, top)) in known.iter().enumerate() {
                edge(&mut path, ix, *top, if ix == 0 { 'M' } else { 'L' }, false);
            }
            for (ix, (bottom, _)) in known.iter().enumerate().rev() {
                edge(&mut path, ix, *bottom, 'L', true);
            }
            path.push('z');
        }
        at += run.len();
    }
    path
}

/// A line through the middles of the points; gaps where a value is missing.
pub fn line(points: &[Option<f64>], scale: Scale, height: usize) -> String {
    let mut path = String::new();
    let mut at = 0;
    for run in points.chunk_by(|one, next| one.is_some() == next.is_some()) {
        let n = points.len();
        let y = |value: f64| float(height) * (1.0 - scale.part(value));
        for (ix, value) in run.iter().flatten().enumerate() {
            let place = at + ix;
            // A single point is as wide as its step, and lines reach the edges.
            let (first, last) = (ix == 0, ix + 1 == run.len());
            let y = y(*value);
            let middle = (2 * place + 1) * WIDTH / (2 * n);
            if first {
                let _ = write!(path, "M{} {y:.1}", place * WIDTH / n);
            }
            let _ = write!(path, "L{middle} {y:.1}");
            if last {
                let _ = write!(path, "L{} {y:.1}", (place + 1) * WIDTH / n);
            }
        }
        at += run.len();
    }
    path
}

#[expect(clippy::cast_precision_loss, reason = "a height in pixels")]
fn float(height: usize) -> f64 {
    height as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes, which are not negative"
)]
pub fn whole(value: f64) -> u64 {
    value as u64
}
