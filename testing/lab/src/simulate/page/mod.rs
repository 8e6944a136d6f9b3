//! The result of a simulation as one HTML page, for readers without context: the simulation,
//! the answer in a sentence, its confidence, tables, and described plots. The page is one file that
//! loads nothing, runs nothing, and is always the same for the same result.

pub mod fairness;
mod gantt;
mod owners;
pub mod packing;
pub mod queue;
mod waits;
pub mod window;

pub use waits::span;

use askama::Template;
use gpool_cli::render::safe::safe;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::render::words;
use gpool_cli::screen::Screen;
use gpool_trace::interval::Mean;

use crate::render::plot::Plot;

/// The usual size of a plot; two fit side by side.
const USUAL: (f64, f64) = (480.0, 290.0);

#[derive(Template)]
#[template(path = "simulation.html")]
struct Page {
    title: String,
    /// The simulation in a sentence.
    lead: String,
    answers: Vec<String>,
    warnings: Vec<String>,
    facts: Vec<(&'static str, String)>,
    command: String,
    grids: Vec<Grid>,
    figures: Vec<Figure>,
    version: &'static str,
}

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Grid {
    /// The caption above.
    pub caption: String,
    /// The column heads.
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// The meaning of the columns.
    pub note: String,
}

impl Grid {
    /// The table for the terminal.
    pub fn text(self, screen: &Screen) -> String {
        let mut table = Table::new(self.head);
        for row in self.rows {
            table.push(row.iter().map(|text| Cell::new(text)).collect());
        }
        format!("{}\n{}", table.render(screen.width, screen.colors), self.note)
    }
}

/// Plots of one subject, side by side.
struct Figure {
    heading: String,
    /// What the plots show, and how it was computed.
    text: String,
    keys: Vec<Key>,
    panels: Vec<Panel>,
    /// The values as a table.
    grid: Option<Grid>,
    /// Whether it takes the full width of the page.
    is_wide: bool,
    /// Whether its plots are too long to shrink for a small screen.
    is_long: bool,
}

/// The meaning of a color.
#[derive(Clone)]
struct Key {
    class: String,
    path: &'static str,
    text: String,
}

struct Panel {
    heading: String,
    plot: Plot,
}

impl Figure {
    /// A figure with one plot of usual size.
    fn usual(heading: &str, text: String, keys: Vec<Key>, plot: Plot, grid: Grid) -> Self {
        let panels = vec![Panel { heading: String::new(), plot }];
        let (heading, grid) = (heading.to_owned(), Some(grid));
        Self { heading, text, keys, panels, grid, is_wide: false, is_long: false }
    }
}

impl Key {
    fn line(class: &str, text: &str) -> Self {
        Self { class: format!("line {class}"), path: "M0 5.5H26", text: safe(text).into_owned() }
    }

    fn area(class: &str, text: &str) -> Self {
        Self {
            class: format!("area {class}"),
            path: "M0 0H26V11H0z",
            text: safe(text).into_owned(),
        }
    }
}

/// The class of the policy at an index: a color and a line style, since not all readers can see
/// colors.
fn class_of(ix: usize) -> String {
    format!("p{} d{}", ix % 6, ix % 4)
}

fn keys<'a>(policies: impl Iterator<Item = &'a str>, key: impl Fn(&str, &str) -> Key) -> Vec<Key> {
    policies.enumerate().map(|(ix, policy)| key(&class_of(ix), policy)).collect()
}

/// The command line, with shell quotes.
pub fn command() -> String {
    // Words that are not UTF-8 were refused earlier.
    let words: Vec<String> =
        std::env::args_os().skip(1).filter_map(|it| it.into_string().ok()).collect();
    format!("gpool {}", safe(&words::command(&words)))
}

/// The size of a significant difference with its confidence interval; otherwise only that it is not
/// significant.
pub fn by_how_much(
    mean: &Mean,
    (less, more): (&str, &str),
    text: impl Fn(f64) -> String,
) -> String {
    match mean.interval {
        Some((low, high)) if mean.is_told() => {
            let word = if mean.mean < 0.0 { less } else { more };
            let (near, far) = if low > 0.0 { (low, high) } else { (-high, -low) };
            let (by, near, far) = (text(mean.mean.abs()), text(near), text(far));
            format!(": {by} {word} (95 % confidence interval: {near} to {far})")
        }
        _ => "; the difference is not significant".to_owned(),
    }
}

/// The confidence interval of a difference.
pub fn interval(mean: &Mean, text: impl Fn(f64) -> String) -> String {
    mean.interval.map_or("-".to_owned(), |(low, high)| {
        format!("{} … {}", signed(low, &text), signed(high, &text))
    })
}

/// A number with a sign; the minus is as wide as the plus.
fn signed(value: f64, text: impl Fn(f64) -> String) -> String {
    let sign = if value < 0.0 { '−' } else { '+' };
    format!("{sign}{}", text(value.abs()))
}

/// The comparison in a word.
pub fn verdict(mean: &Mean, (less, more): (&str, &str)) -> String {
    match mean {
        mean if !mean.is_told() => "not significant".to_owned(),
        mean if mean.mean < 0.0 => less.to_owned(),
        _ => more.to_owned(),
    }
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

fn points(part: f64) -> String {
    format!("{:.2} percentage points", part * 100.0)
}

/// Names joined for a sentence.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}
