//! Parallel coordinates: an axis for each parameter of a sweep and one for its metric, and a line
//! across them for each trial.
//! Source: Inselberg, "The plane with parallel coordinates", 1985.

use std::fmt::Write as _;

use askama::Template;
use gpool_sweep::trials::{Study, Trial};
use gpool_wire::job_metrics::figure;

use crate::plot::WIDTH;

/// The height of the axes.
const HEIGHT: usize = 180;
/// The space above the axes, for their names and largest values.
const TOP: usize = 38;
/// Most lines; those of the best trials are drawn.
const LINES_MAX: usize = 200;
/// Most axes of parameters.
const AXES_MAX: usize = 12;
/// From this ratio of its ends on, an axis is logarithmic.
const LOG_FROM: f64 = 100.0;

/// The names of an axis, and its place in percent.
struct Axis {
    x: String,
    class: &'static str,
    name: String,
    top: String,
    bottom: String,
}

struct Line {
    class: &'static str,
    path: String,
    title: String,
}

/// The chart.
#[derive(Template)]
#[template(path = "part/parallel.html")]
pub struct Parallel {
    axes: Vec<Axis>,
    /// The best trial is the last.
    lines: Vec<Line>,
    top: usize,
    height: usize,
    whole_height: usize,
}

/// The positions of values on an axis, 0 to 1 from the bottom.
enum Positions {
    Numbers {
        low: f64,
        high: f64,
        is_log: bool,
    },
    /// Texts from the bottom up.
    Words(Vec<String>),
}

impl Positions {
    fn of_texts<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Self {
        let numbers: Option<Vec<f64>> =
            texts.clone().map(|text| text.parse().ok().filter(|it: &f64| it.is_finite())).collect();
        if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
            return Self::of_numbers(numbers.into_iter());
        }
        let mut words: Vec<String> = Vec::new();
        for text in texts {
            if !words.iter().any(|word| word == text) {
                words.push(text.to_owned());
            }
        }
        words.sort();
        Self::Words(words)
    }

    fn of_numbers(numbers: impl Iterator<Item = f64>) -> Self {
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) =
            numbers.fold(ends, |(low, high), number| (low.min(number), high.max(number)));
        Self::Numbers { low, high, is_log: low > 0.0 && high / low >= LOG_FROM }
    }

    fn at(&self, text: &str) -> Option<f64> {
        let part = |value: f64, low: f64, high: f64| match high > low {
            true => (value - low) / (high - low),
            false => 0.5,
        };
        match self {
            Self::Numbers { low, high, is_log } => {
                let value: f64 = text.parse().ok()?;
                Some(match is_log {
                    true => part(value.ln(), low.ln(), high.ln()),
                    false => part(value, *low, *high),
                })
            }
            Self::Words(words) => {
                let at = words.iter().position(|word| word == text)?;
                let last = words.len().saturating_sub(1);
                Some(part(float(at), 0.0, float(last)))
            }
        }
    }

    /// The texts at the top and at the bottom.
    fn ends(&self) -> (String, String) {
        let short = |text: &String| text.chars().take(14).collect::<String>();
        match self {
            Self::Numbers { low, high, .. } => (figure(*high), figure(*low)),
            Self::Words(words) => (
                words.last().map(short).unwrap_or_default(),
                words.first().map(short).unwrap_or_default(),
            ),
        }
    }
}

impl Parallel {
    /// The chart of the trials that have a value; `None` for fewer than two.
    pub fn new(study: &Study) -> Option<Self> {
        let metric = &study.objective.as_ref()?.metric;
        let ranked = study.ranked();
        let mut shown: Vec<&Trial> =
            ranked.into_iter().filter(|it| it.value.is_some()).take(LINES_MAX).collect();
        if shown.len() < 2 {
            return None;
        }
        let best = study.best().map(|best| best.number);
        shown.sort_by_key(|it| Some(it.number) == best);
        let names: Vec<String> =
            shown[0].parameters.iter().take(AXES_MAX).map(|(name, _)| name.clone()).collect();
        let text_of = |trial: &Trial, name: &str| {
            let mut parameters = trial.parameters.iter();
            parameters.find(|(own, _)| own == name).map(|(_, value)| value.clone())
        };
        let mut scales: Vec<(String, Positions)> = Vec::new();
        for name in names {
            let texts: Vec<String> = shown.iter().filter_map(|it| text_of(it, &name)).collect();
            let positions = Positions::of_texts(texts.iter().map(String::as_str));
            scales.push((name, positions));
        }
        let values = shown.iter().filter_map(|it| it.value);
        scales.push((metric.clone(), Positions::of_numbers(values)));
        let last = scales.len() - 1;
        let axes = scales
            .iter()
            .enumerate()
            .map(|(at, (name, positions))| axis(at, last, name, positions));
        let lines = shown.iter().map(|trial| {
            let mut path = String::new();
            for (at, (name, positions)) in scales.iter().enumerate() {
                let text = match at == last {
                    true => trial.value.map(|value| value.to_string()),
                    false => text_of(trial, name),
                };
                let Some(part) = text.and_then(|text| positions.at(&text)) else { continue };
                let first = if path.is_empty() { 'M' } else { 'L' };
                let y = (1.0 - part) * float(HEIGHT);
                // Writing into a string can't fail.
                let _ = write!(path, "{first}{} {y:.1}", at * WIDTH / last.max(1));
            }
            let value = trial.value.map(figure).unwrap_or_default();
            Line {
                class: if Some(trial.number) == best { "best" } else { "trial" },
                path,
                title: format!("trial {}: {metric} {value}, {}", trial.number, trial.words()),
            }
        });
        Some(Self {
            axes: axes.collect(),
            lines: lines.collect(),
            top: TOP,
            height: HEIGHT,
            whole_height: TOP + HEIGHT + 22,
        })
    }
}

fn axis(at: usize, last: usize, name: &str, positions: &Positions) -> Axis {
    let permille = at * 1000 / last.max(1);
    let (top, bottom) = positions.ends();
    Axis {
        x: format!("{}.{}", permille / 10, permille % 10),
        class: match at {
            0 => "first",
            at if at == last => "last",
            _ => "",
        },
        name: name.to_owned(),
        top,
        bottom,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place in a chart")]
fn float(number: usize) -> f64 {
    number as f64
}
