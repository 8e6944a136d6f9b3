//! `gpool map --show`: the progress of a map.

use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::clock::span;
use gpool_cli::render::json;
use gpool_cli::session::Session;
use gpool_client::JobsQuery;
use gpool_model::job::JobState;
use gpool_wire::Job;
use serde::Serialize;

use crate::folder::{folder_of, no_map};
use crate::plan::{self, DRIVER, WORKER};

/// The progress of a map.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Progress {
    name: String,
    /// The job that leases the items.
    driver: String,
    /// The state of that job.
    state: JobState,
    /// The jobs of the workers.
    workers: Vec<String>,
    n_items: u64,
    n_done: u64,
    n_set_aside: u64,
    n_workers: u64,
    items_per_second: f64,
    /// Seconds to the end at this rate.
    remaining_s: Option<f64>,
    /// The file with a line for each item.
    records: String,
}

/// Shows a map.
///
/// # Errors
/// There is no such map.
pub fn run(name: &str, session: &Session) -> Result {
    let client = session.client()?;
    let query = JobsQuery {
        group: Some(name.to_owned()),
        state: Some("all".to_owned()),
        ..JobsQuery::default()
    };
    let (mut driver, mut workers): (Option<Job>, Vec<String>) = (None, Vec::new());
    let number = |job: &Job| job.id.parse::<u64>().unwrap_or_default();
    for job in client.every_job(query) {
        let job = job?;
        match job.request.group.as_deref().and_then(|group| group.split('/').nth(1)) {
            Some(WORKER) => workers.push(job.id),
            Some(DRIVER) if driver.as_ref().is_none_or(|old| number(old) < number(&job)) => {
                driver = Some(job);
            }
            _ => {}
        }
    }
    let driver = driver.ok_or_else(|| no_map(name))?;
    // The list has no metrics.
    let driver = client.job(&driver.id)?;
    let metric = |key: &str| driver.usage.metrics.get(key).copied().unwrap_or_default();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of items, which is not negative"
    )]
    let whole = |key: &str| metric(key).max(0.0) as u64;
    let rate = metric("items_per_second");
    let remaining = metric("items") - metric("done") - metric("set_aside");
    let is_running = driver.state == JobState::Running;
    let progress = Progress {
        name: name.to_owned(),
        driver: driver.id.clone(),
        state: driver.state,
        workers,
        n_items: whole("items"),
        n_done: whole("done"),
        n_set_aside: whole("set_aside"),
        n_workers: if is_running { whole("workers") } else { 0 },
        items_per_second: rate,
        remaining_s: (is_running && rate > 0.0).then(|| remaining / rate),
        records: plan::records(&folder_of(name)?).display().to_string(),
    };
    match session.global.json {
        true => session.screen.data(&json::one(&progress))?,
        false => session.screen.data(&text(&progress))?,
    }
    Ok(Exit::OK)
}

fn text(progress: &Progress) -> String {
    let Progress { name, n_items, n_done, n_set_aside, n_workers, .. } = progress;
    let state = progress.state.as_str();
    let mut text = format!("map {name}: {n_done} of {n_items} items done");
    if *n_set_aside > 0 {
        text.push_str(&format!(" · {n_set_aside} set aside"));
    }
    text.push_str(&format!(" · driver: job {} {state}", progress.driver));
    if progress.state == JobState::Running {
        text.push_str(&format!(
            " · {n_workers} workers · {:.1} items/s",
            progress.items_per_second
        ));
    }
    if let Some(remaining) = progress.remaining_s {
        text.push_str(&format!(" · about {} left", span(remaining)));
    }
    text.push('\n');
    for worker in &progress.workers {
        text.push_str(&format!("workers: gpool queue -a --group {name}   (job {worker})\n"));
    }
    text.push_str(&format!("records: {}\n", progress.records));
    if *n_set_aside > 0 && progress.state.is_end() {
        text.push_str(&format!("again:   gpool map --resume {name}\n"));
    }
    text
}
