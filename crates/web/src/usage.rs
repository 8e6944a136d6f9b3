//! The page of GPU time: allocated, busy and idle.

use askama::Template;
use gpool_wire::usage::UsageRow;

use crate::frame::Frame;
use crate::overview::RANGES;
use crate::written;

/// The properties that split the time on the page.
pub const PROPERTIES: [&str; 6] = ["project", "user", "model", "kind", "node", "pool"];

/// The contents of the page of GPU time.
#[derive(Debug, Clone, Copy)]
pub struct UsagePage<'a> {
    /// The frame.
    pub frame: Frame<'a>,
    /// GPU time, most first.
    pub rows: &'a [UsageRow],
    /// The property that splits it, one of [`PROPERTIES`].
    pub by: &'a str,
    /// The shown range, one of [`RANGES`].
    pub range: &'a str,
}

struct Row {
    name: String,
    hours: String,
    busy: String,
    idle: String,
    /// Percentages of the largest group: busy, idle and not measured, one after the other.
    parts: [f64; 3],
    busy_percent: String,
}

#[derive(Template)]
#[template(path = "usage.html")]
struct Page<'a> {
    frame: Frame<'a>,
    by: &'a str,
    range: &'a str,
    ranges: [(&'static str, bool); RANGES.len()],
    properties: [(&'static str, bool); PROPERTIES.len()],
    rows: Vec<Row>,
}

impl UsagePage<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let largest = self.rows.iter().map(|row| row.gpu_hours).fold(0.0, f64::max);
        let page = Page {
            frame: self.frame,
            by: self.by,
            range: self.range,
            ranges: RANGES.map(|(range, _)| (range, range == self.range)),
            properties: PROPERTIES.map(|property| (property, property == self.by)),
            rows: self.rows.iter().map(|row| shown(row, largest)).collect(),
        };
        written(&page)
    }
}

fn shown(row: &UsageRow, largest: f64) -> Row {
    let percent = |hours: f64| if largest > 0.0 { 100.0 * hours / largest } else { 0.0 };
    let (busy, idle) = (row.busy_gpu_hours, row.idle_gpu_hours());
    let not_measured = (row.gpu_hours - row.measured_gpu_hours).max(0.0);
    let hours = |hours: Option<f64>| hours.map_or_else(|| "not known".to_owned(), figure);
    Row {
        name: name(row),
        hours: figure(row.gpu_hours),
        busy: hours(busy),
        idle: hours(idle),
        parts: [busy.unwrap_or(0.0), idle.unwrap_or(0.0), not_measured].map(percent),
        busy_percent: match busy {
            Some(busy) if row.measured_gpu_hours > 0.0 => {
                format!("{:.0} %", 100.0 * busy / row.measured_gpu_hours)
            }
            _ => "not known".to_owned(),
        },
    }
}

/// The names of a group.
pub fn name(row: &UsageRow) -> String {
    match row.group("") {
        _ if row.is_rest => "others".to_owned(),
        name if name.is_empty() => "none".to_owned(),
        name => name,
    }
}

/// Hours as text.
pub fn figure(hours: f64) -> String {
    if hours >= 99.95 { format!("{hours:.0}") } else { format!("{hours:.2}") }
}
