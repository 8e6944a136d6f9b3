//! The table of jobs by idle GPU time.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::NOTHING;
use gpool_wire::waste::{IdleParts, WasteRow};

use super::hours::figure;

pub const WASTE: Noun<WasteRow> = Noun {
    columns: COLUMNS,
    table: &["id", "user", "name", "state", "gpus", "gpuh", "idle", "when", "busypct", "enough"],
    wide: &[
        "id", "user", "project", "name", "state", "gpus", "gpuh", "idle", "start", "between",
        "tail", "dead", "busypct", "enough", "sooner",
    ],
    name: |row| row.job.id.clone(),
    keys,
};

fn keys() -> Vec<String> {
    ["job", "gpu_hours", "gpu_utilization", "idle_gpu_hours", "idle_parts", "hints", "sooner"]
        .map(str::to_owned)
        .to_vec()
}

const COLUMNS: &[Column<WasteRow>] = &[
    Column { name: "id", head: "JOB", cell: |row, _| Cell::new(&row.job.id) },
    Column { name: "user", head: "USER", cell: |row, _| Cell::new(&row.job.user) },
    Column { name: "project", head: "PROJECT", cell: |row, _| Cell::new(&row.job.project) },
    Column { name: "name", head: "NAME", cell: |row, _| Cell::new(&row.job.name) },
    Column { name: "state", head: "STATE", cell: |row, _| Cell::new(row.job.state.as_str()) },
    Column { name: "gpus", head: "GPUS", cell: |row, _| Cell::new(&row.job.request.gpus_words()) },
    Column { name: "gpuh", head: "GPU-H", cell: |row, _| Cell::new(&figure(row.gpu_hours)) },
    Column { name: "idle", head: "IDLE", cell: |row, _| Cell::new(&figure(row.idle_gpu_hours)) },
    Column { name: "when", head: "WHEN", cell: |row, _| Cell::new(when(row)) },
    Column { name: "start", head: "START", cell: |row, _| part(row, |it| it.start) },
    Column { name: "between", head: "BETWEEN", cell: |row, _| part(row, |it| it.between) },
    Column { name: "tail", head: "TAIL", cell: |row, _| part(row, |it| it.tail) },
    Column { name: "dead", head: "DEAD", cell: |row, _| part(row, |it| it.dead) },
    Column {
        name: "busypct",
        head: "BUSY %",
        cell: |row, _| Cell::new(&format!("{:.0}", 100.0 * row.gpu_utilization)),
    },
    Column { name: "enough", head: "ENOUGH", cell: |row, _| Cell::new(&enough(row)) },
    Column { name: "sooner", head: "WOULD START", cell: |row, _| Cell::new(&sooner(row)) },
];

/// When most of the idle time was.
fn when(row: &WasteRow) -> &'static str {
    row.idle_parts.map_or(NOTHING, IdleParts::largest)
}

fn part(row: &WasteRow, of: fn(IdleParts) -> f64) -> Cell {
    Cell::new(&row.idle_parts.map_or_else(|| NOTHING.to_owned(), |parts| figure(of(parts))))
}

/// The flags of a request that would have been enough.
fn enough(row: &WasteRow) -> String {
    let flags: Vec<&str> = row.hints.iter().filter_map(|hint| hint.flags.as_deref()).collect();
    if flags.is_empty() { NOTHING.to_owned() } else { flags.join(" ") }
}

fn sooner(row: &WasteRow) -> String {
    match &row.sooner {
        Some(jobs) if !jobs.is_empty() => jobs.join(" "),
        _ => NOTHING.to_owned(),
    }
}

/// The sums below the table.
#[must_use]
pub fn footer(rows: &[WasteRow]) -> String {
    if rows.is_empty() {
        return "No job with measured utilization held a GPU in this range.".to_owned();
    }
    let idle: f64 = rows.iter().map(|row| row.idle_gpu_hours).sum();
    let all: f64 = rows.iter().map(|row| row.gpu_hours).sum();
    let mut text = format!("{} of {} GPU-h idle", figure(idle), figure(all));
    let mut sums = IdleParts::default().named();
    for parts in rows.iter().filter_map(|row| row.idle_parts) {
        for (sum, (_, part)) in sums.iter_mut().zip(parts.named()) {
            sum.1 += part;
        }
    }
    for (name, sum) in sums.into_iter().filter(|(_, sum)| *sum >= 0.005) {
        text.push_str(&format!(" · {name} {}", figure(sum)));
    }
    text
}
