//! The page of GPU time: allocated, busy and idle.

use askama::Template;
use gpool_wire::usage::UsageRow;

use crate::bars::Bars;
use crate::course::{Chart, Course};
use crate::frame::Frame;
use crate::overview::RANGES;
use crate::text::figure;
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
    /// The same over time, if it is split by project.
    pub course: Option<Course<'a>>,
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
    parts: [f64; 3],
    busy_percent: String,
    guaranteed: String,
    waited: String,
}

#[derive(Template)]
#[template(path = "usage.html")]
struct Page<'a> {
    frame: Frame<'a>,
    by: &'a str,
    range: &'a str,
    ranges: [(&'static str, bool); RANGES.len()],
    properties: [(&'static str, bool); PROPERTIES.len()],
    legend: [&'static str; 3],
    rows: Vec<Row>,
    charts: Vec<Chart>,
}

impl UsagePage<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let bars = Bars::of_usage(&self.rows.iter().collect::<Vec<_>>());
        let page = Page {
            frame: self.frame,
            by: self.by,
            range: self.range,
            ranges: RANGES.map(|(range, _)| (range, range == self.range)),
            properties: PROPERTIES.map(|property| (property, property == self.by)),
            legend: bars.parts,
            charts: self.course.map(|course| course.charts()).unwrap_or_default(),
            rows: self.rows.iter().zip(bars.rows).map(|(row, parts)| shown(row, parts)).collect(),
        };
        written(&page)
    }
}

fn shown(row: &UsageRow, parts: [f64; 3]) -> Row {
    let (busy, idle) = (row.busy_gpu_hours, row.idle_gpu_hours());
    let hours = |hours: Option<f64>| hours.map_or_else(|| "not known".to_owned(), figure);
    Row {
        name: name(row),
        hours: figure(row.gpu_hours),
        busy: hours(busy),
        idle: hours(idle),
        parts,
        busy_percent: match busy {
            Some(busy) if row.measured_gpu_hours > 0.0 => {
                format!("{:.0} %", 100.0 * busy / row.measured_gpu_hours)
            }
            _ => "not known".to_owned(),
        },
        guaranteed: row.guaranteed_gpu_hours.map_or_else(String::new, figure),
        waited: figure(row.waited_gpu_hours),
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
