//! The page of costs: GPU time, its idle part, energy and waiting.

use askama::Template;
use gpool_wire::budget::BudgetRow;
use gpool_wire::cost::{Cost, CostRow};

use crate::bars::Bars;
use crate::frame::Frame;
use crate::ranges::RANGES;
use crate::sort::{Head, Order};
use crate::text::figure;
use crate::usage::{PROPERTIES, heading, href, name, total};
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
    /// The shown range, one of [`CostPage::RANGES`].
    pub range: &'a str,
    /// Its start as the command has it.
    pub since: &'a str,
    /// The order of the table.
    pub order: Order<'a>,
}

impl CostPage<'_> {
    /// The properties that split the cost on the page.
    pub const PROPERTIES: [&'static str; PROPERTIES.len() + 1] =
        ["project", "user", "model", "kind", "node", "pool", "job"];
    /// The range since the first day of this month in UTC, as budgets count.
    pub const MONTH: &'static str = "month";
    /// The ranges.
    pub const RANGES: [&'static str; RANGES.len() + 1] =
        [RANGES[0].0, RANGES[1].0, RANGES[2].0, RANGES[3].0, Self::MONTH];
}

struct Row {
    name: String,
    href: String,
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
    class: &'static str,
    /// The used percentage, at most 100.
    part: f64,
}

#[derive(Template)]
#[template(path = "cost.html")]
struct Page<'a> {
    frame: Frame<'a>,
    by: &'a str,
    range: &'a str,
    ranges: [(&'static str, bool); RANGES.len() + 1],
    properties: [(&'static str, bool); CostPage::PROPERTIES.len()],
    legend: [&'static str; 3],
    heads: Vec<Head>,
    rows: Vec<Row>,
    totals: Vec<Row>,
    unpriced: Option<String>,
    budgets: Vec<Budget>,
    since: &'a str,
}

impl CostPage<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let mut rows: Vec<&CostRow> = self.rows.iter().collect();
        // The sort is stable: equal rows stay in the order of the API.
        rows.sort_by(|one, other| compared(self.order, one, other));
        let bars = Bars::of_cost(&rows);
        let unpriced: f64 = rows.iter().map(|row| row.cost.unpriced_gpu_hours).sum();
        let columns = [
            (heading(self.by), "name", false),
            ("GPU-hours", "hours", true),
            ("Cost", "cost", true),
            ("Idle", "idle", true),
            ("Energy", "energy", true),
            ("Waiting", "waited", true),
            ("Share", "", true),
        ];
        let page = format!("/cost?by={}&range={}", self.by, self.range);
        let totals = totals(&rows);
        let page = Page {
            frame: self.frame,
            by: self.by,
            range: self.range,
            ranges: Self::RANGES.map(|range| (range, range == self.range)),
            properties: Self::PROPERTIES.map(|property| (property, property == self.by)),
            legend: bars.parts,
            heads: self.order.heads(&columns, &page),
            totals: match rows.len() > totals.len() {
                true => totals.iter().map(|row| shown(row, [0.0; 3])).collect(),
                false => Vec::new(),
            },
            rows: rows.into_iter().zip(bars.rows).map(|(row, parts)| shown(row, parts)).collect(),
            budgets: self.budgets.iter().map(budget).collect(),
            unpriced: (unpriced >= 0.005).then(|| figure(unpriced)),
            since: self.since,
        };
        written(&page)
    }
}

/// The sum of each currency.
pub fn totals(rows: &[&CostRow]) -> Vec<CostRow> {
    let mut currencies: Vec<&str> = rows.iter().map(|row| row.cost.currency.as_str()).collect();
    currencies.sort_unstable();
    currencies.dedup();
    let sum = |currency: &str| {
        let rows: Vec<&&CostRow> =
            rows.iter().filter(|row| row.cost.currency == currency).collect();
        let usage: Vec<_> = rows.iter().map(|row| &row.usage).collect();
        let some = |figure: fn(&Cost) -> Option<f64>| {
            rows.iter().filter_map(|row| figure(&row.cost)).reduce(|sum, more| sum + more)
        };
        let all = |figure: fn(&Cost) -> f64| rows.iter().map(|row| figure(&row.cost)).sum();
        let cost = Cost {
            currency: currency.to_owned(),
            cost: all(|it| it.cost),
            idle_cost: some(|it| it.idle_cost),
            energy_cost: some(|it| it.energy_cost),
            waited_cost: all(|it| it.waited_cost),
            unpriced_gpu_hours: all(|it| it.unpriced_gpu_hours),
        };
        CostRow { usage: total(&usage), cost }
    };
    currencies.into_iter().map(sum).collect()
}

fn compared(order: Order<'_>, one: &CostRow, other: &CostRow) -> std::cmp::Ordering {
    let by = |figure: &dyn Fn(&CostRow) -> Option<f64>| {
        let value = |row: &CostRow| figure(row).unwrap_or(-1.0);
        order.of_two(&value(one), &value(other))
    };
    match order.by {
        "name" => order.of_two(&name(&one.usage), &name(&other.usage)),
        "hours" => by(&|row| Some(row.usage.gpu_hours)),
        "cost" => by(&|row| Some(row.cost.cost)),
        "idle" => by(&|row| row.cost.idle_cost),
        "energy" => by(&|row| row.cost.energy_cost),
        "waited" => by(&|row| Some(row.cost.waited_cost)),
        _ => std::cmp::Ordering::Equal,
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
        href: href(usage),
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
    let (state, class) = match row.state.as_str() {
        "warn" => ("nearly used up", "idle"),
        "over" => ("used up", "out"),
        "holds" => ("used up: jobs are held", "out"),
        _ => ("left", "free"),
    };
    Budget {
        name: format!("{} {}", row.kind, row.name),
        spent: format!("{:.2} {}", row.spent, row.currency),
        budget: format!("{:.2} {}", row.budget, row.currency),
        state,
        class,
        part: part.min(100.0),
    }
}
