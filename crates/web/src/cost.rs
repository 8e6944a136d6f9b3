//! The page of costs: GPU time, its idle part, energy and waiting.

use askama::Template;
use gpool_wire::budget::BudgetRow;
use gpool_wire::cost::CostRow;

use crate::bars::Bars;
use crate::frame::Frame;
use crate::overview::RANGES;
use crate::text::figure;
use crate::usage::{PROPERTIES, name};
use crate::written;

/// The contents of the page of costs.
#[derive(Debug, Clone, Copy)]
pub struct CostPage<'a> {
    /// The frame.
    pub frame: Frame<'a>,
    /// Costs, highest first.
    pub rows: &'a [CostRow],
    /// Budgets of this month.
    pub budgets: &'a [BudgetRow],
    /// The property that splits them, one of [`PROPERTIES`] or `job`.
    pub by: &'a str,
    /// The shown range, one of [`RANGES`].
    pub range: &'a str,
}

impl CostPage<'_> {
    /// The properties that split the cost on the page.
    pub const PROPERTIES: [&'static str; PROPERTIES.len() + 1] =
        ["project", "user", "model", "kind", "node", "pool", "job"];
}

struct Row {
    name: String,
    hours: String,
    cost: String,
    idle: String,
    energy: String,
    waited: String,
    parts: [f64; 3],
}

struct Budget {
    name: String,
    spent: String,
    budget: String,
    state: &'static str,
    /// The used percentage, at most 100.
    part: f64,
}

#[derive(Template)]
#[template(path = "cost.html")]
struct Page<'a> {
    frame: Frame<'a>,
    by: &'a str,
    range: &'a str,
    ranges: [(&'static str, bool); RANGES.len()],
    properties: [(&'static str, bool); CostPage::PROPERTIES.len()],
    legend: [&'static str; 3],
    rows: Vec<Row>,
    unpriced: Option<String>,
    budgets: Vec<Budget>,
}

impl CostPage<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let bars = Bars::of_cost(&self.rows.iter().collect::<Vec<_>>());
        let unpriced: f64 = self.rows.iter().map(|row| row.cost.unpriced_gpu_hours).sum();
        let page = Page {
            frame: self.frame,
            by: self.by,
            range: self.range,
            ranges: RANGES.map(|(range, _)| (range, range == self.range)),
            properties: Self::PROPERTIES.map(|property| (property, property == self.by)),
            legend: bars.parts,
            rows: self.rows.iter().zip(bars.rows).map(|(row, parts)| shown(row, parts)).collect(),
            budgets: self.budgets.iter().map(budget).collect(),
            unpriced: (unpriced >= 0.005).then(|| figure(unpriced)),
        };
        written(&page)
    }
}

fn shown(row: &CostRow, parts: [f64; 3]) -> Row {
    let CostRow { usage, cost } = row;
    let money = |amount: Option<f64>| match amount {
        Some(amount) if !cost.currency.is_empty() => format!("{amount:.2} {}", cost.currency),
        _ => "not known".to_owned(),
    };
    Row {
        name: name(usage),
        hours: figure(usage.gpu_hours),
        cost: money(Some(cost.cost)),
        idle: money(cost.idle_cost),
        energy: money(cost.energy_cost),
        waited: money(Some(cost.waited_cost)),
        parts,
    }
}

fn budget(row: &BudgetRow) -> Budget {
    let part = if row.budget > 0.0 { 100.0 * row.spent / row.budget } else { 100.0 };
    Budget {
        name: format!("{} {}", row.kind, row.name),
        spent: format!("{:.2} {}", row.spent, row.currency),
        budget: format!("{:.2} {}", row.budget, row.currency),
        state: match row.state.as_str() {
            "warn" => "nearly used up",
            "over" => "used up",
            "holds" => "used up: jobs are held",
            _ => "left",
        },
        part: part.min(100.0),
    }
}
