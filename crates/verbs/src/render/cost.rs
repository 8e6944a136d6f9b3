//! The table of costs.

use std::collections::BTreeMap;

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::NOTHING;
use gpool_wire::cost::{Cost, CostRow};

use super::hours::figure;
use super::usage::{group, keys};

pub const COST: Noun<CostRow> = Noun {
    columns: COLUMNS,
    table: &["group", "gpuh", "price", "idle", "energy", "waited"],
    wide: &[
        "start", "group", "currency", "gpuh", "unpriced", "price", "idle", "kwh", "energy",
        "waitedh", "waited",
    ],
    name: |row| group(&row.usage),
    keys: || keys(&KEYS),
};

const KEYS: [&str; 9] = [
    "currency",
    "gpu_hours",
    "cost",
    "idle_cost",
    "energy_kwh",
    "energy_cost",
    "waited_gpu_hours",
    "waited_cost",
    "unpriced_gpu_hours",
];

const COLUMNS: &[Column<CostRow>] = &[
    Column { name: "start", head: "START", cell: |row, _| Cell::new(&row.usage.start.short()) },
    Column { name: "group", head: "GROUP", cell: |row, _| Cell::new(&group(&row.usage)) },
    Column { name: "currency", head: "CURRENCY", cell: |row, _| Cell::new(&row.cost.currency) },
    Column { name: "gpuh", head: "GPU-H", cell: |row, _| Cell::new(&figure(row.usage.gpu_hours)) },
    Column {
        name: "unpriced",
        head: "UNPRICED",
        cell: |row, _| Cell::new(&figure(row.cost.unpriced_gpu_hours)),
    },
    Column { name: "price", head: "COST", cell: |row, _| money(&row.cost, Some(row.cost.cost)) },
    Column { name: "idle", head: "IDLE", cell: |row, _| money(&row.cost, row.cost.idle_cost) },
    Column {
        name: "kwh",
        head: "KWH",
        cell: |row, _| Cell::new(&row.usage.energy_kwh.map_or(NOTHING.to_owned(), figure)),
    },
    Column {
        name: "energy",
        head: "ENERGY",
        cell: |row, _| money(&row.cost, row.cost.energy_cost),
    },
    Column {
        name: "waitedh",
        head: "WAITED-H",
        cell: |row, _| Cell::new(&figure(row.usage.waited_gpu_hours)),
    },
    Column {
        name: "waited",
        head: "WAITED",
        cell: |row, _| money(&row.cost, Some(row.cost.waited_cost)),
    },
];

/// An amount with its currency; nothing without prices.
fn money(cost: &Cost, amount: Option<f64>) -> Cell {
    let amount = amount.filter(|_| !cost.currency.is_empty());
    let text = amount.map(|amount| format!("{amount:.2} {}", cost.currency));
    Cell::new(text.as_deref().unwrap_or(NOTHING))
}

/// The sums below the table, by currency.
#[must_use]
pub fn footer(rows: &[CostRow]) -> String {
    let mut sums = BTreeMap::<&str, Cost>::new();
    for CostRow { cost, .. } in rows.iter().filter(|row| !row.cost.currency.is_empty()) {
        let currency = cost.currency.clone();
        let sum = sums.entry(&cost.currency).or_insert(Cost { currency, ..Cost::default() });
        let plus = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        sum.cost += cost.cost;
        sum.idle_cost = plus(sum.idle_cost, cost.idle_cost);
        sum.energy_cost = plus(sum.energy_cost, cost.energy_cost);
        sum.waited_cost += cost.waited_cost;
    }
    let mut lines: Vec<String> = sums.values().map(Cost::text).collect();
    let unpriced: f64 = rows.iter().map(|row| row.cost.unpriced_gpu_hours).sum();
    if unpriced >= 0.005 {
        lines.push(format!("{} GPU-h have no price", figure(unpriced)));
    }
    match lines.is_empty() {
        true => "No GPU was allocated in this range.".to_owned(),
        false => lines.join("\n"),
    }
}
