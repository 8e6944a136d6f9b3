//! Plots as SVG: this module computes positions and gives shapes classes, and the style sheet of
//! the page sets their colors. Plotting crates write colors into each shape, so their pictures do
//! not fit both a light and a dark page, and they have no descriptions for screen readers; several
//! also depend on fonts and image encoders.

pub mod scale;

use std::fmt::Write as _;

use askama::Template;

pub use scale::{Axis, DAY, HOUR, Scale, plain};

/// Approximate width of a letter on an axis.
const LETTER: f64 = 8.0;
/// Height above the plot; larger if the second axis has a label.
const TOP: f64 = 14.0;
const TOP_WITH_LABEL: f64 = 32.0;
/// Height below the plot, for the tick texts and the label of the first axis.
const BOTTOM: f64 = 46.0;
/// Width to the right of the plot.
const RIGHT: f64 = 16.0;

/// A plot with two axes.
#[derive(Debug, Clone, Template)]
#[template(path = "plot.svg")]
pub struct Plot {
    pub title: String,
    /// A description for readers that can't see it.
    pub summary: String,
    width: f64,
    height: f64,
    left: f64,
    x: Axis,
    y: Axis,
    shapes: Vec<Shape>,
    labels: Vec<Label>,
}

#[derive(Debug, Clone)]
struct Shape {
    class: String,
    path: String,
}

#[derive(Debug, Clone)]
struct Label {
    x: f64,
    y: f64,
    text: String,
}

/// A rectangle between two values of each axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// Its range on the first axis.
    pub x: (f64, f64),
    /// Its range on the second axis.
    pub y: (f64, f64),
}

impl Plot {
    /// An empty plot of this size; the page scales it.
    #[must_use]
    pub fn new(title: &str, summary: &str, (width, height): (f64, f64), x: Axis, y: Axis) -> Self {
        let letters = y.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let left = letters as f64 * LETTER + 14.0;
        let (title, summary) = (title.to_owned(), summary.to_owned());
        let (shapes, labels) = (Vec::new(), Vec::new());
        Self { title, summary, width, height, left, x, y, shapes, labels }
    }

    fn place_x(&self, value: f64) -> f64 {
        self.left + self.x.scale.part(value) * (self.width - self.left - RIGHT)
    }

    fn place_y(&self, value: f64) -> f64 {
        self.bottom() - self.y.scale.part(value) * (self.bottom() - self.top())
    }

    fn top(&self) -> f64 {
        if self.y.label.is_empty() { TOP } else { TOP_WITH_LABEL }
    }

    /// The vertical position of the first axis.
    fn bottom(&self) -> f64 {
        self.height - if self.x.label.is_empty() { 8.0 } else { BOTTOM }
    }

    /// Lines at the ticks of the second axis, and the line of the first axis.
    fn grid(&self) -> String {
        let (left, right) = (place(self.left), place(self.width - RIGHT));
        let lines = self.y.ticks.iter().map(|(at, _)| {
            let y = place(self.place_y(*at));
            format!("M{left} {y}H{right}")
        });
        let bottom = place(self.bottom());
        let lines: String = lines.collect();
        lines + &format!("M{left} {bottom}H{right}")
    }

    /// Small marks at the ticks of the first axis.
    fn notches(&self) -> String {
        let bottom = self.bottom();
        let notch =
            |(at, _): &(f64, String)| format!("M{} {}v5", place(self.place_x(*at)), place(bottom));
        self.x.ticks.iter().map(notch).collect()
    }

    fn texts_x(&self) -> Vec<Label> {
        let y = self.bottom() + 20.0;
        let label = |(at, text): &(f64, String)| {
            // A text at the end would be cut in half.
            let half = text.chars().count() as f64 * LETTER / 2.0;
            let x = self.place_x(*at).min(self.width - half - 1.0);
            Label { x, y, text: text.clone() }
        };
        self.x.ticks.iter().map(label).collect()
    }

    fn texts_y(&self) -> Vec<Label> {
        let x = self.left - 7.0;
        let label = |(at, text): &(f64, String)| {
            let y = self.place_y(*at) + 4.5;
            Label { x, y, text: text.clone() }
        };
        self.y.ticks.iter().map(label).collect()
    }

    fn label_x(&self) -> Label {
        let x = f64::midpoint(self.left, self.width - RIGHT);
        Label { x, y: self.height - 6.0, text: self.x.label.clone() }
    }

    fn push(&mut self, class: &str, path: String) {
        if !path.is_empty() {
            self.shapes.push(Shape { class: class.to_owned(), path });
        }
    }

    /// A line through points; a dot for a single point.
    pub fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() == 1 {
            return self.dots(class, points);
        }
        let mut path = String::new();
        for (ix, (x, y)) in points.iter().enumerate() {
            let letter = if ix == 0 { 'M' } else { 'L' };
            let (x, y) = (place(self.place_x(*x)), place(self.place_y(*y)));
            let _ = write!(path, "{letter}{x} {y}");
        }
        self.push(&format!("line {class}"), path);
    }

    /// The area between two values of the second axis at each value of the first.
    pub fn area(&mut self, class: &str, points: &[(f64, f64, f64)]) {
        let mut path = String::new();
        let there = points.iter().map(|(x, _, upper)| (*x, *upper));
        let back = points.iter().rev().map(|(x, lower, _)| (*x, *lower));
        for (ix, (x, y)) in there.chain(back).enumerate() {
            let letter = if ix == 0 { 'M' } else { 'L' };
            let (x, y) = (place(self.place_x(x)), place(self.place_y(y)));
            let _ = write!(path, "{letter}{x} {y}");
        }
        if !path.is_empty() {
            path.push('Z');
        }
        self.push(&format!("area {class}"), path);
    }

    /// Rectangles of one class.
    pub fn blocks(&mut self, class: &str, blocks: impl IntoIterator<Item = Block>) {
        let mut path = String::new();
        for Block { x, y } in blocks {
            let (left, right) = (self.place_x(x.0), self.place_x(x.1));
            let (bottom, top) = (self.place_y(y.0), self.place_y(y.1));
            let (width, height) = (place(right - left), place(bottom - top));
            let (x, y) = (place(left), place(top));
            let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
        }
        self.push(&format!("area {class}"), path);
    }

    pub fn dots(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (x, y) in points {
            // A line of zero length with round ends.
            let _ = write!(path, "M{} {}h0", place(self.place_x(*x)), place(self.place_y(*y)));
        }
        self.push(&format!("dots {class}"), path);
    }

    /// A text that begins at a point.
    pub fn text(&mut self, x: f64, y: f64, text: &str) {
        let (x, y) = (self.place_x(x), self.place_y(y));
        self.labels.push(Label { x, y, text: text.to_owned() });
    }
}

/// A coordinate with one decimal, which is finer than visible.
fn place(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
