//! The page of costs: GPU time, its idle part, energy and waiting.

use askama::Template;
use gpool_wire::budget::BudgetRow;
use gpool_wire::cost::{Cost, CostRow};

use crate::bars::Bars;
use crate::frame::Frame;
use crate::ranges::RANGES;
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::text::figure;
use crate::usage::{Choice, PROPERTIES, heading, name, total};

/// The contents of the page of costs.
#[derive(Debug, Clone, Copy)]
pub struct CostPage<'a> {
    pub frame: Frame<'a>,
    /// Costs, highest first.
    pub rows: &'a [CostRow],
    /// Budgets of this month.
    pub budgets: &'a [BudgetRow],
    /// The property that splits them, one of [`PROPERTIES`].
    pub by: &'a str,
    /// Only the cost with this property: `kind=train`; empty for all.
    pub only: &'a str,
    /// The shown range, one of [`CostPage::RANGES`].
    pub range: &'a str,
    /// Its start as the command has it.
    pub since: &'a str,
    pub order: Order<'a>,
}

impl CostPage<'_> {
    /// The range since the first day of this month in UTC, as budgets count.
    pub const MONTH: &'static str = "month";
    pub const RANGES: [&'static str; RANGES.len() + 1] =
        [RANGES[0].0, RANGES[1].0, RANGES[2].0, RANGES[3].0, Self::MONTH];
}

struct CostReportRow {
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
struct CostTemplate<'a> {
    frame: Frame<'a>,
    by: &'a str,
    only: &'a str,
    all: String,
    ranges: Vec<(&'static str, String, bool)>,
    properties: Vec<(&'static str, String, bool)>,
    legend: [&'static str; 3],
    heads: Vec<ColumnHeading>,
    rows: Vec<CostReportRow>,
    totals: Vec<CostReportRow>,
    unpriced: Option<String>,
    budgets: Vec<Budget>,
    budget_heads: Vec<ColumnHeading>,
    since: &'a str,
}

impl CostPage<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let mut rows: Vec<&CostRow> = self.rows.iter().collect();
        let columns = columns(self.by);
        self.order.sort(&columns, &mut rows, |row| *row);
        let bars = Bars::of_cost(&rows);
        let unpriced: f64 = rows.iter().map(|row| row.cost.unpriced_gpu_hours).sum();
        let CostPage { by, range, only, .. } = *self;
        let choice = Choice { path: "/cost", by, range, only };
        let totals = totals(&rows);
        let mut budgets: Vec<&BudgetRow> = self.budgets.iter().collect();
        self.order.sort(&BUDGETS, &mut budgets, |row| *row);
        let page = CostTemplate {
            frame: self.frame,
            by: self.by,
            only,
            all: Choice { only: "", ..choice }.page(),
            ranges: choice.links(&Self::RANGES, |it, range| Choice { range, ..*it }),
            properties: choice.links(&PROPERTIES, |it, by| Choice { by, ..*it }),
            legend: bars.parts,
            heads: self.order.heads(&columns, &choice.page()),
            totals: match rows.len() > totals.len() {
                true => totals.iter().map(|row| table_row(row, [0.0; 3], &choice)).collect(),
                false => Vec::new(),
            },
            rows: rows
                .into_iter()
                .zip(bars.rows)
                .map(|(row, parts)| table_row(row, parts, &choice))
                .collect(),
            budgets: budgets.into_iter().map(budget).collect(),
            budget_heads: self.order.heads(&BUDGETS, &choice.page()),
            unpriced: (unpriced >= 0.005).then(|| figure(unpriced)),
            since: self.since,
        };
        render(&page)
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

/// The columns of the table; the first one is that of a property.
fn columns(by: &str) -> [Column<CostRow>; 7] {
    [
        Column(heading(by), "name", By::Text(|row| name(&row.usage))),
        Column("GPU-hours", "hours", By::Number(|row| row.usage.gpu_hours)),
        Column("Cost", "cost", By::Number(|row| row.cost.cost)),
        Column("Idle", "idle", By::Number(|row| row.cost.idle_cost.unwrap_or(-1.0))),
        Column("Energy", "energy", By::Number(|row| row.cost.energy_cost.unwrap_or(-1.0))),
        Column("Waiting", "waited", By::Number(|row| row.cost.waited_cost)),
        Column("Share", "", By::Nothing),
    ]
}

const BUDGETS: [Column<BudgetRow>; 5] = [
    Column("Payer", "payer", By::Text(|row| format!("{} {}", row.kind, row.name))),
    Column("Spent", "spent", By::Number(|row| row.spent)),
    Column("Budget", "budget", By::Number(|row| row.budget)),
    Column("State", "state", By::Text(|row| row.state.clone())),
    Column("Used", "used", By::Number(used)),
];

/// The used percentage of a budget.
fn used(row: &BudgetRow) -> f64 {
    if row.budget > 0.0 { 100.0 * row.spent / row.budget } else { 100.0 }
}

/// The keys of orders that the tables can have.
#[must_use]
pub fn cost_orders() -> Vec<&'static str> {
    [keys(&columns(PROPERTIES[0])), keys(&BUDGETS)].concat()
}

fn table_row(row: &CostRow, parts: [f64; 3], choice: &Choice<'_>) -> CostReportRow {
    let CostRow { usage, cost } = row;
    let money = |amount: Option<f64>| match amount {
        Some(amount) if !cost.currency.is_empty() => format!("{amount:.2} {}", cost.currency),
        _ => "not known".to_owned(),
    };
    CostReportRow {
        name: name(usage),
        href: choice.href(usage),
        hours: figure(usage.gpu_hours),
        cost: money(Some(cost.cost)),
        idle: money(cost.idle_cost),
        energy: money(cost.energy_cost),
        waited: money(Some(cost.waited_cost)),
        parts,
    }
}

fn budget(row: &BudgetRow) -> Budget {
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
        part: used(row).min(100.0),
    }
}
