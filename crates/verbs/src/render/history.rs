//! The list of ended jobs: `gpool history`.

use gpool_cli::render::jobs::job_keys;
use gpool_cli::render::list::Noun;
use gpool_cli::render::words::{count, grouped};
use gpool_wire::{Job, Totals};

use super::hours::figure;
use super::jobs::COLUMNS;

pub const HISTORY: Noun<Job> = Noun {
    columns: COLUMNS,
    table: &["id", "name", "user", "project", "gpus", "state", "ended", "time", "gpuh", "reason"],
    wide: &[
        "id",
        "name",
        "user",
        "project",
        "gpus",
        "cpus",
        "mem",
        "state",
        "exit",
        "attempt",
        "submitted",
        "started",
        "ended",
        "waited",
        "time",
        "gpuh",
        "where",
        "reason",
        "command",
        "note",
    ],
    name: |job| job.id.clone(),
    keys: job_keys,
};

/// The line below the list: how many jobs of how many, and their total usage.
#[must_use]
pub fn footer(n_rows: usize, totals: &Totals) -> String {
    let n_rows = u64::try_from(n_rows).unwrap_or(u64::MAX);
    let mut parts = vec![match totals.n_jobs > n_rows {
        true => {
            let sign = if totals.is_partial { "more than " } else { "" };
            format!("{n_rows} of {sign}{} (-n shows more)", count(totals.n_jobs, "job"))
        }
        false => count(n_rows, "job"),
    }];
    if totals.n_jobs > 0 {
        parts.push(format!("{} succeeded", grouped(totals.n_succeeded)));
        parts.push(format!("{} GPU-hours", figure(totals.gpu_hours)));
        parts.push(format!("{} CPU-hours", figure(totals.cpu_hours)));
    }
    if totals.n_started > 0 {
        let seconds = totals.waited_hours * 3600.0 / as_float(totals.n_started);
        parts.push(format!("waited {} on average", gpool_cli::render::clock::span(seconds)));
    }
    parts.join(" · ")
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn as_float(n: u64) -> f64 {
    n as f64
}
