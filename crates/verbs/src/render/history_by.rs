//! Sums over ended jobs by user, project or name: `gpool history --by`.

use std::collections::BTreeMap;

use gpool_cli::render::clock::span;
use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::NOTHING;
use gpool_wire::Job;
use serde::Serialize;

use super::hours::figure;

/// The grouping key of ended jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// One row for each user.
    User,
    /// One row for each project.
    Project,
    /// One row for each job name.
    Name,
}

/// The ended jobs of one user, project or name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sum {
    /// The user, project or name.
    pub name: String,
    /// Number of ended jobs; an array counts as one.
    pub n_jobs: u64,
    pub n_succeeded: u64,
    pub n_started: u64,
    /// Allocated GPUs times hours.
    pub gpu_hours: f64,
    /// Hours of CPU time.
    pub cpu_hours: f64,
    /// Seconds from submission to start, summed over the jobs that started.
    pub waited_s: f64,
}

pub const SUMS: Noun<Sum> = Noun {
    columns: COLUMNS,
    table: &["name", "jobs", "ok", "gpuh", "cpuh", "waited", "mean"],
    wide: &["name", "jobs", "ok", "started", "gpuh", "cpuh", "waited", "mean"],
    name: |sum| sum.name.clone(),
    keys,
};

fn keys() -> Vec<String> {
    ["name", "n_jobs", "n_succeeded", "n_started", "gpu_hours", "cpu_hours", "waited_s"]
        .map(str::to_owned)
        .to_vec()
}

const COLUMNS: &[Column<Sum>] = &[
    Column { name: "name", head: "NAME", cell: |sum, _| Cell::new(&sum.name) },
    Column { name: "jobs", head: "JOBS", cell: |sum, _| Cell::new(&sum.n_jobs.to_string()) },
    Column { name: "ok", head: "OK", cell: |sum, _| Cell::new(&sum.n_succeeded.to_string()) },
    Column {
        name: "started",
        head: "STARTED",
        cell: |sum, _| Cell::new(&sum.n_started.to_string()),
    },
    Column { name: "gpuh", head: "GPU-H", cell: |sum, _| Cell::new(&figure(sum.gpu_hours)) },
    Column { name: "cpuh", head: "CPU-H", cell: |sum, _| Cell::new(&figure(sum.cpu_hours)) },
    Column {
        name: "waited",
        head: "WAITED",
        cell: |sum, _| Cell::new(&span(sum.waited_s).to_string()),
    },
    Column { name: "mean", head: "WAITED EACH", cell: |sum, _| Cell::new(&mean(sum)) },
];

/// The mean waiting time of a job.
fn mean(sum: &Sum) -> String {
    match u32::try_from(sum.n_started) {
        Ok(n) if n > 0 => span(sum.waited_s / f64::from(n)).to_string(),
        _ => NOTHING.to_owned(),
    }
}

/// The sums, most GPU-hours first, then by name.
#[must_use]
pub fn sums(jobs: &[Job], by: By) -> Vec<Sum> {
    let mut all: BTreeMap<&str, Sum> = BTreeMap::new();
    for job in jobs {
        let name = match by {
            By::User => &job.user,
            By::Project => &job.project,
            By::Name => &job.name,
        };
        let sum = all.entry(name).or_default();
        name.clone_into(&mut sum.name);
        sum.n_jobs += 1;
        sum.n_succeeded += u64::from(job.state == gpool_model::job::JobState::Succeeded);
        sum.gpu_hours += job.usage.gpu_hours;
        sum.cpu_hours +=
            job.usage.total.map_or(0.0, |usage| (usage.cpu_user_s + usage.cpu_system_s) / 3600.0);
        if job.run.started_at.is_some() {
            sum.n_started += 1;
            sum.waited_s += job.wait.waited_s;
        }
    }
    let mut all: Vec<Sum> = all.into_values().collect();
    all.sort_by(|a, b| b.gpu_hours.total_cmp(&a.gpu_hours));
    all
}
