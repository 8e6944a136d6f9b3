//! The page of GPU time: allocated, busy and idle.

use askama::Template;
use gpool_wire::usage::{UsageHistory, UsageRow};

use crate::bars::Bars;
use crate::course::{self, Chart};
use crate::frame::Frame;
use crate::ranges::RANGES;
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::text::{encoded, figure};

/// The properties that split the time and the cost.
pub const PROPERTIES: [&str; 7] = ["project", "user", "model", "kind", "node", "pool", "job"];

/// The contents of the page of GPU time.
#[derive(Debug, Clone, Copy)]
pub struct UsagePage<'a> {
    pub frame: Frame<'a>,
    /// GPU time, most first.
    pub rows: &'a [UsageRow],
    /// GPUs over time, if the time is split by project.
    pub course: Option<&'a UsageHistory>,
    /// The property that splits it, one of [`PROPERTIES`].
    pub by: &'a str,
    /// Only the time with this property: `kind=train`; empty for all.
    pub only: &'a str,
    /// The shown range, one of [`RANGES`].
    pub range: &'a str,
    pub order: Order<'a>,
}

struct UsageReportRow {
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
struct UsageTemplate<'a> {
    frame: Frame<'a>,
    by: &'a str,
    range: &'a str,
    only: &'a str,
    all: String,
    ranges: Vec<(&'static str, String, bool)>,
    properties: Vec<(&'static str, String, bool)>,
    legend: [&'static str; 3],
    heads: Vec<ColumnHeading>,
    rows: Vec<UsageReportRow>,
    total: Option<UsageReportRow>,
    charts: Vec<Chart>,
}

impl UsagePage<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let mut rows: Vec<&UsageRow> = self.rows.iter().collect();
        let columns = columns(self.by);
        self.order.sort(&columns, &mut rows, |row| *row);
        let bars = Bars::of_usage(&rows);
        let UsagePage { by, range, only, .. } = *self;
        let choice = Choice { path: "/usage", by, range, only };
        let sum = total(&rows);
        let page = UsageTemplate {
            frame: self.frame,
            by: self.by,
            range: self.range,
            all: Choice { only: "", ..choice }.page(),
            ranges: choice.links(&RANGES.map(|(it, _)| it), |it, range| Choice { range, ..*it }),
            properties: choice.links(&PROPERTIES, |it, by| Choice { by, ..*it }),
            legend: bars.parts,
            heads: self.order.heads(&columns, &choice.page()),
            charts: self.course.map(course::of_projects).unwrap_or_default(),
            total: (rows.len() > 1).then(|| table_row(&sum, [0.0; 3], &choice)),
            rows: rows
                .into_iter()
                .zip(bars.rows)
                .map(|(row, parts)| table_row(row, parts, &choice))
                .collect(),
            only,
        };
        render(&page)
    }
}

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

/// The columns of the table; the first one is that of a property.
fn columns(by: &str) -> Vec<Column<UsageRow>> {
    let mut columns = vec![
        Column(heading(by), "name", By::Text(name)),
        Column("GPU-hours", "hours", By::Number(|row| row.gpu_hours)),
        Column("Busy", "busy", By::Number(|row| row.busy_gpu_hours.unwrap_or(-1.0))),
        Column("Idle", "idle", By::Number(|row| row.idle_gpu_hours().unwrap_or(-1.0))),
        Column("Busy part", "part", By::Number(|row| busy_part(row).unwrap_or(-1.0))),
        Column(
            "Guaranteed",
            "guaranteed",
            By::Number(|row| row.guaranteed_gpu_hours.unwrap_or(-1.0)),
        ),
        Column("Waited for", "waited", By::Number(|row| row.waited_gpu_hours)),
        Column("Share", "", By::Nothing),
    ];
    columns.retain(|it| by == PROPERTIES[0] || it.1 != "guaranteed");
    columns
}

/// The keys of orders that the table can have, split by a property.
#[must_use]
pub fn usage_orders(by: &str) -> Vec<&'static str> {
    keys(&columns(by))
}

/// The choices of a page about time or cost.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    pub path: &'static str,
    pub by: &'a str,
    pub range: &'a str,
    /// The filter: `kind=train,user=ana`; empty for all.
    pub only: &'a str,
}

impl Choice<'_> {
    /// The address of the page.
    pub fn page(&self) -> String {
        let Self { path, by, range, only } = *self;
        let only = match only.is_empty() {
            true => String::new(),
            false => format!("&only={}", encoded(only)),
        };
        format!("{path}?by={by}&range={range}{only}")
    }

    /// The addresses with another range or property, and whether each is chosen.
    pub fn links<'n>(
        &self,
        names: &[&'n str],
        change: impl Fn(&Self, &'n str) -> Self,
    ) -> Vec<(&'n str, String, bool)> {
        let link = |name: &&'n str| {
            let changed = change(self, name);
            (*name, changed.page(), changed.page() == self.page())
        };
        names.iter().map(link).collect()
    }

    /// The page of a job, or of the jobs of a group; empty if there is none.
    pub fn href(&self, row: &UsageRow) -> String {
        let values = [&row.project, &row.user, &row.model, &row.kind, &row.node, &row.pool];
        let given = |value: &Option<String>| value.clone().filter(|it| !it.is_empty());
        if row.is_outside || row.is_rest {
            return String::new();
        }
        if let Some(job) = given(&row.job) {
            return format!("/jobs/{job}");
        }
        let group = PROPERTIES.iter().zip(values).find_map(|(it, value)| Some((it, given(value)?)));
        group.map_or_else(String::new, |(property, value)| {
            let joint = if self.only.is_empty() { "" } else { "," };
            let only = format!("{}{joint}{property}={value}", self.only);
            Choice { by: "job", only: &only, ..*self }.page()
        })
    }
}

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

fn table_row(row: &UsageRow, parts: [f64; 3], choice: &Choice<'_>) -> UsageReportRow {
    let (busy, idle) = (row.busy_gpu_hours, row.idle_gpu_hours());
    let hours = |hours: Option<f64>| hours.map_or_else(|| "not known".to_owned(), figure);
    let part = busy_part(row).map(|part| format!("{:.0} %", 100.0 * part));
    UsageReportRow {
        name: name(row),
        href: choice.href(row),
        hours: figure(row.gpu_hours),
        busy: hours(busy),
        idle: hours(idle),
        parts,
        busy_percent: part.unwrap_or_else(|| "not known".to_owned()),
        guaranteed: row.guaranteed_gpu_hours.map_or_else(String::new, figure),
        waited: figure(row.waited_gpu_hours),
    }
}

pub fn name(row: &UsageRow) -> String {
    match row.group("") {
        _ if row.is_rest => "others".to_owned(),
        // Time before a job has GPUs has no job.
        name if name.is_empty() && row.job.is_some() => "waiting jobs".to_owned(),
        name if name.is_empty() => "none".to_owned(),
        name => name,
    }
}
