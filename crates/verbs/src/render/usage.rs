//! The table of GPU time.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::NOTHING;
use gpool_wire::usage::UsageRow;

use super::hours::figure;

pub const USAGE: Noun<UsageRow> = Noun {
    columns: COLUMNS,
    table: &["group", "gpuh", "busy", "idle", "busypct"],
    wide: &[
        "start",
        "group",
        "gpuh",
        "guaranteed",
        "measured",
        "busy",
        "useful",
        "idle",
        "busypct",
        "waited",
        "kwh",
    ],
    name: group,
    keys: || keys(&KEYS),
};

const KEYS: [&str; 7] = [
    "gpu_hours",
    "measured_gpu_hours",
    "busy_gpu_hours",
    "useful_gpu_hours",
    "waited_gpu_hours",
    "guaranteed_gpu_hours",
    "energy_kwh",
];

/// The keys of a row: its start and its group, then these figures.
#[must_use]
pub fn keys(figures: &[&str]) -> Vec<String> {
    let group = ["start", "project", "user", "model", "kind", "node", "pool", "job", "is_outside"];
    group.iter().chain(figures).map(|key| (*key).to_owned()).collect()
}

const COLUMNS: &[Column<UsageRow>] = &[
    Column { name: "start", head: "START", cell: |row, _| Cell::new(&row.start.short()) },
    Column { name: "group", head: "GROUP", cell: |row, _| Cell::new(&group(row)) },
    Column { name: "gpuh", head: "GPU-H", cell: |row, _| Cell::new(&figure(row.gpu_hours)) },
    Column {
        name: "guaranteed",
        head: "GUARANTEED",
        cell: |row, _| Cell::new(&hours(row.guaranteed_gpu_hours)),
    },
    Column {
        name: "measured",
        head: "MEASURED",
        cell: |row, _| Cell::new(&figure(row.measured_gpu_hours)),
    },
    Column { name: "busy", head: "BUSY", cell: |row, _| Cell::new(&hours(row.busy_gpu_hours)) },
    Column {
        name: "useful",
        head: "USEFUL",
        cell: |row, _| Cell::new(&hours(row.useful_gpu_hours)),
    },
    Column { name: "idle", head: "IDLE", cell: |row, _| Cell::new(&hours(row.idle_gpu_hours())) },
    Column { name: "busypct", head: "BUSY %", cell: |row, _| Cell::new(&percent(row)) },
    Column {
        name: "waited",
        head: "WAITED",
        cell: |row, _| Cell::new(&figure(row.waited_gpu_hours)),
    },
    Column { name: "kwh", head: "KWH", cell: |row, _| Cell::new(&hours(row.energy_kwh)) },
];

#[must_use]
pub fn group(row: &UsageRow) -> String {
    if row.is_rest {
        return "(others)".to_owned();
    }
    match row.group(NOTHING) {
        names if names.is_empty() => "all".to_owned(),
        names => names,
    }
}

fn hours(hours: Option<f64>) -> String {
    hours.map_or_else(|| NOTHING.to_owned(), figure)
}

fn percent(row: &UsageRow) -> String {
    match row.busy_gpu_hours {
        Some(busy) if row.measured_gpu_hours > 0.0 => {
            format!("{:.0}", 100.0 * busy / row.measured_gpu_hours)
        }
        _ => NOTHING.to_owned(),
    }
}

/// The sums below the table.
#[must_use]
pub fn footer(rows: &[UsageRow]) -> String {
    if rows.is_empty() {
        return "No GPU was allocated in this range.".to_owned();
    }
    let sum = |of: fn(&UsageRow) -> f64| rows.iter().map(of).sum::<f64>();
    let allocated = sum(|row| row.gpu_hours);
    let busy = sum(|row| row.busy_gpu_hours.unwrap_or(0.0));
    let idle = sum(|row| row.idle_gpu_hours().unwrap_or(0.0));
    format!("{} GPU-h · {} busy · {} idle", figure(allocated), figure(busy), figure(idle))
}
