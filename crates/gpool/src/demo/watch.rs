//! The live view of the jobs and their states: redrawn in place on a terminal, one line per change
//! elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpool_cli::cluster::PATIENCE;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::words;
use gpool_cli::screen::Screen;
use gpool_client::Client;
use gpool_wire::Job;

/// What the view observed of a job while it waited.
#[derive(Debug, Clone, Default)]
pub struct WaitHistory {
    /// The last reasons of its wait.
    pub waited_for: Vec<String>,
    /// The ids of the jobs that started before it although submitted later.
    pub overtaken_by: Vec<String>,
}

/// Interval at which the view is redrawn.
const EVERY: Duration = Duration::from_millis(200);

/// Shows the jobs until all have ended; returns the observations of each, by id.
///
/// # Errors
/// The jobs do not end in time, the server does not answer, or the user interrupts.
pub fn until_ended(
    client: &Client,
    ids: &[String],
    interrupted: &AtomicBool,
    screen: &Screen,
) -> Result<BTreeMap<String, WaitHistory>> {
    let deadline = Instant::now() + PATIENCE;
    let mut histories: BTreeMap<String, WaitHistory> = BTreeMap::new();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut n_drawn = 0;
    loop {
        let jobs = jobs(client, ids)?;
        for job in jobs.iter().filter(|job| !job.wait.reasons.is_empty()) {
            let entry = histories.entry(job.id.clone()).or_default();
            entry.waited_for =
                job.wait.reasons.iter().map(|it| brief(&it.text).to_owned()).collect();
        }
        note_overtaking(&jobs, &mut histories);
        if screen.is_terminal() {
            n_drawn = redraw(&jobs, n_drawn, screen)?;
        } else {
            write_changes(&jobs, &mut last, screen)?;
        }
        if jobs.iter().all(|job| job.state.is_end()) {
            return Ok(histories);
        }
        if interrupted.load(Ordering::Relaxed) {
            let failure = Failure::new(errors::DEMO_FAILED, "the demo was interrupted");
            return Err(failure.exit_with(Exit::DETACHED));
        }
        if Instant::now() > deadline {
            let what = "the jobs of the demo did not end in time";
            return Err(Failure::new(errors::DEMO_FAILED, what));
        }
        std::thread::sleep(EVERY);
    }
}

/// The jobs with these ids.
pub fn jobs(client: &Client, ids: &[String]) -> Result<Vec<Job>> {
    ids.iter().map(|id| client.job(id).map_err(Failure::from)).collect()
}

/// Records which jobs started although a job submitted before them still waits.
fn note_overtaking(jobs: &[Job], histories: &mut BTreeMap<String, WaitHistory>) {
    for (at, waiting) in jobs.iter().enumerate().filter(|(_, job)| job.run.started_at.is_none()) {
        for later in jobs[at + 1..].iter().filter(|job| job.run.started_at.is_some()) {
            let entry = histories.entry(waiting.id.clone()).or_default();
            if !entry.overtaken_by.contains(&later.id) {
                entry.overtaken_by.push(later.id.clone());
            }
        }
    }
}

/// A reason without its subject.
fn brief(text: &str) -> &str {
    text.strip_prefix("It ").unwrap_or(text)
}

fn line(job: &Job) -> String {
    let mut line = format!(
        "{:>4} {:6} {:>2} GPU  {:10}",
        job.id,
        job.name,
        job.request.gpus_text(),
        job.state
    );
    if !job.placement.is_empty() {
        // Writing to a string can't fail.
        let _ = write!(line, " {}", words::places(&job.placement));
    } else if let Some(reason) = job.wait.reasons.first() {
        let _ = write!(line, " {}", brief(&reason.text));
    }
    line
}

fn redraw(jobs: &[Job], n_drawn: usize, screen: &Screen) -> Result<usize> {
    let mut text = String::new();
    if n_drawn > 0 {
        let _ = write!(text, "\x1b[{n_drawn}A");
    }
    let room = screen.width.unwrap_or(80).saturating_sub(1);
    for job in jobs {
        let _ = writeln!(text, "\x1b[2K{}", gpool_cli::render::table::cut(&line(job), room));
    }
    screen.raw(text.as_bytes())?;
    Ok(jobs.len())
}

fn write_changes(jobs: &[Job], last: &mut BTreeMap<String, String>, screen: &Screen) -> Result<()> {
    for job in jobs {
        let line = line(job);
        if last.get(&job.id) != Some(&line) {
            screen.data(&format!("{line}\n"))?;
            last.insert(job.id.clone(), line);
        }
    }
    Ok(())
}
