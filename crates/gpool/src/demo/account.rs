//! The summary at the end: waiting times with reasons, devices, and results.

use std::collections::BTreeMap;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::clock::span;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::render::words;
use gpool_cli::screen::Screen;
use gpool_client::Client;
use gpool_model::job::JobState;
use gpool_wire::Job;

use super::load::{Submitted, ids};
use super::watch::{self, WaitHistory};

/// Writes the summary.
///
/// # Errors
/// A job did not succeed.
pub fn write(
    client: &Client,
    submitted: &[Submitted],
    histories: &BTreeMap<String, WaitHistory>,
    screen: &Screen,
) -> Result<()> {
    let jobs = watch::jobs(client, &ids(submitted))?;
    let head = ["JOB", "NAME", "GPUS", "WAITED", "RAN", "DEVICES", "STATE"];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for job in &jobs {
        table.push(vec![
            Cell::new(&job.id),
            Cell::new(&job.name),
            Cell::new(job.request.gpus_text()),
            Cell::new(&span(job.wait.waited_s).to_string()),
            Cell::new(&ran(job)),
            Cell::new(&devices(job)),
            Cell::new(job.state.as_str()),
        ]);
    }
    screen.data("\n")?;
    screen.data(&table.render(screen.width, screen.colors))?;
    screen.data("\nWhy\n")?;
    let nothing = WaitHistory::default();
    for (job, submitted) in jobs.iter().zip(submitted) {
        let why = why(job, submitted, histories.get(&job.id).unwrap_or(&nothing));
        screen.data(&format!("  {} {:6} {}\n", job.id, job.name, why))?;
    }
    match jobs.iter().find(|job| job.state != JobState::Succeeded) {
        None => Ok(()),
        Some(job) => {
            let what = format!("job {} of the demo ended as {}", job.id, job.state);
            Err(Failure::new(errors::DEMO_FAILED, what))
        }
    }
}

fn ran(job: &Job) -> String {
    match (job.run.started_at, job.run.ended_at) {
        (Some(start), Some(end)) => end.0.since(start.0).to_string(),
        _ => "–".to_owned(),
    }
}

fn devices(job: &Job) -> String {
    let any = job.placement.iter().any(|placed| !placed.devices.is_empty());
    if any { words::places(&job.placement) } else { "none".to_owned() }
}

/// The result of a job with its reasons, in one line.
fn why(job: &Job, submitted: &Submitted, history: &WaitHistory) -> String {
    let mut parts = vec![submitted.what.to_owned()];
    if let Some(reason) = history.waited_for.first() {
        parts.push(format!("waited: {reason}"));
    }
    if !history.overtaken_by.is_empty() {
        let names = history.overtaken_by.join(", ");
        parts.push(format!("{names} fitted and started before it"));
    }
    if job.placement.iter().any(|placed| !placed.devices.is_empty()) {
        parts.push(format!("ran on {}, the lowest free GPUs", words::places(&job.placement)));
    }
    parts.join("; ")
}
