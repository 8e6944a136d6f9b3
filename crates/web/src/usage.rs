//! The page of GPU time: allocated, busy and idle.

use askama::Template;
use gpool_wire::usage::{UsageHistory, UsageRow};

use crate::bars::Bars;
use crate::course::{self, Chart};
use crate::frame::Frame;
use crate::ranges::RANGES;
use crate::sort::{Head, Order};
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
    /// GPUs over time, if the time is split by project.
    pub course: Option<&'a UsageHistory>,
    /// The property that splits it, one of [`PROPERTIES`].
    pub by: &'a str,
    /// The shown range, one of [`RANGES`].
    pub range: &'a str,
    /// The order of the table.
    pub order: Order<'a>,
}

struct Row {
    name: String,
    href: String,
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
    heads: Vec<Head>,
    rows: Vec<Row>,
    total: Option<Row>,
    charts: Vec<Chart>,
}

impl UsagePage<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let mut rows: Vec<&UsageRow> = self.rows.iter().collect();
        // The sort is stable: equal rows stay in the order of the API.
        rows.sort_by(|one, other| compared(self.order, one, other));
        let bars = Bars::of_usage(&rows);
        let by_project = self.by == PROPERTIES[0];
        let columns = [
            (heading(self.by), "name", false),
            ("GPU-hours", "hours", true),
            ("Busy", "busy", true),
            ("Idle", "idle", true),
            ("Busy part", "part", true),
            ("Guaranteed", "guaranteed", true),
            ("Waited for", "waited", true),
            ("Share", "", true),
        ];
        let columns: Vec<_> =
            columns.into_iter().filter(|(_, key, _)| by_project || *key != "guaranteed").collect();
        let page = format!("/usage?by={}&range={}", self.by, self.range);
        let sum = total(&rows);
        let page = Page {
            frame: self.frame,
            by: self.by,
            range: self.range,
            ranges: RANGES.map(|(range, _)| (range, range == self.range)),
            properties: PROPERTIES.map(|property| (property, property == self.by)),
            legend: bars.parts,
            heads: self.order.heads(&columns, &page),
            charts: self.course.map(course::of_projects).unwrap_or_default(),
            total: (rows.len() > 1).then(|| shown(&sum, [0.0; 3])),
            rows: rows.into_iter().zip(bars.rows).map(|(row, parts)| shown(row, parts)).collect(),
        };
        written(&page)
    }
}

/// The heading of a property.
pub fn heading(by: &str) -> &'static str {
    match by {
        "user" => "User",
        "model" => "Model",
        "kind" => "Kind",
        "node" => "Node",
        "pool" => "Pool",
        "job" => "Job",
        _ => "Project",
    }
}

/// The page of the jobs of a group; empty if there is none.
pub fn href(row: &UsageRow) -> String {
    let UsageRow { project, user, node, job, .. } = row;
    let given = |value: &Option<String>| value.clone().filter(|it| !it.is_empty() && !row.is_rest);
    let query = |key: &str, value: String| {
        let value = value.replace('%', "%25").replace('&', "%26").replace('+', "%2B");
        format!("/queue?state=all&{key}={}", value.replace('#', "%23").replace(' ', "+"))
    };
    match (given(project), given(user), given(node), given(job)) {
        _ if row.is_outside => String::new(),
        (_, _, _, Some(job)) => format!("/jobs/{job}"),
        (Some(project), ..) => query("project", project),
        (_, Some(user), ..) => query("user", user),
        (_, _, Some(_), _) => "/nodes".to_owned(),
        _ => String::new(),
    }
}

/// The sum of rows.
pub fn total(rows: &[&UsageRow]) -> UsageRow {
    let mut sum = UsageRow::default();
    let add = |sum: &mut Option<f64>, more: Option<f64>| {
        *sum = more.map_or(*sum, |more| Some(sum.unwrap_or(0.0) + more));
    };
    for row in rows {
        sum.gpu_hours += row.gpu_hours;
        sum.measured_gpu_hours += row.measured_gpu_hours;
        sum.waited_gpu_hours += row.waited_gpu_hours;
        add(&mut sum.busy_gpu_hours, row.busy_gpu_hours);
        add(&mut sum.guaranteed_gpu_hours, row.guaranteed_gpu_hours);
    }
    sum
}

fn busy_part(row: &UsageRow) -> Option<f64> {
    row.busy_gpu_hours
        .filter(|_| row.measured_gpu_hours > 0.0)
        .map(|it| it / row.measured_gpu_hours)
}

fn compared(order: Order<'_>, one: &UsageRow, other: &UsageRow) -> std::cmp::Ordering {
    let by = |figure: &dyn Fn(&UsageRow) -> Option<f64>| {
        let value = |row: &UsageRow| figure(row).unwrap_or(-1.0);
        order.of_two(&value(one), &value(other))
    };
    match order.by {
        "name" => order.of_two(&name(one), &name(other)),
        "hours" => by(&|row| Some(row.gpu_hours)),
        "busy" => by(&|row| row.busy_gpu_hours),
        "idle" => by(&UsageRow::idle_gpu_hours),
        "part" => by(&busy_part),
        "guaranteed" => by(&|row| row.guaranteed_gpu_hours),
        "waited" => by(&|row| Some(row.waited_gpu_hours)),
        _ => std::cmp::Ordering::Equal,
    }
}

fn shown(row: &UsageRow, parts: [f64; 3]) -> Row {
    let (busy, idle) = (row.busy_gpu_hours, row.idle_gpu_hours());
    let hours = |hours: Option<f64>| hours.map_or_else(|| "not known".to_owned(), figure);
    let part = busy_part(row).map(|part| format!("{:.0} %", 100.0 * part));
    Row {
        name: name(row),
        href: href(row),
        hours: figure(row.gpu_hours),
        busy: hours(busy),
        idle: hours(idle),
        parts,
        busy_percent: part.unwrap_or_else(|| "not known".to_owned()),
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
