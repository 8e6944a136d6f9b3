//! Measures scheduling cycles of a cluster of 10,000 nodes: the whole step of the state machine
//! with the plan, its check, its application and the records of the commit, without disk and
//! network.

use std::time::Duration;

use gpool_cli::failure::Result;
use gpool_model::{Event, TaskId};

use super::figure::{Figure, Ranked};
use super::synthetic::{DEVICES, Fleet, USERS, job};
use super::{Options, failed};

/// Number of timed runs of each kind of step.
const ROUNDS: usize = 51;

/// Fills the cluster and the queue, then times a step without changes, one after a single end, one
/// after a submission, and one after a thousand ends.
///
/// # Errors
/// The state machine refuses something.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let mut fleet = Fleet::new(options.nodes)?;
    let fill = fleet.fill(options.pending, 1, job)?;
    let (n_pending, n_shapes) = (fleet.n_pending(), fleet.n_shapes());
    let full = middle(ROUNDS, || fleet.step(vec![Event::TimerFired]))?;
    let mut running = fleet.tasks();
    let ended = middle(ROUNDS, || end(&mut fleet, &mut running, 1))?;
    let mut kind = 0;
    let submitted = middle(ROUNDS, || {
        kind += 1;
        let event = fleet.submission(kind, vec![job(kind)]);
        fleet.step(vec![event])
    })?;
    let many = middle(5, || end(&mut fleet, &mut running, 1000))?;
    let of = format!(
        "{} nodes, {} GPUs, {USERS} users, {n_pending} pending in {n_shapes} shapes",
        options.nodes,
        options.nodes * DEVICES
    );
    Ok(vec![
        Figure::new("cycle_full_ms", format!("full cycle: {of}"), full, "ms").below(20.0),
        Figure::new("cycle_end_ms", "step after one job ended", ended, "ms").below(5.0),
        Figure::new("cycle_submit_ms", "step after one submission", submitted, "ms").below(5.0),
        Figure::new("cycle_1000_ends_ms", "step after 1,000 jobs ended at once", many, "ms"),
        Figure::new("cycle_fill_s", "filling the empty cluster, all steps", fill, "s"),
    ])
}

/// Ends some of the running tasks, spread over all nodes, and has what starts instead run.
fn end(fleet: &mut Fleet, running: &mut Vec<TaskId>, n: usize) -> Result<Duration> {
    if running.len() < 8 * n {
        // The tasks that started since.
        *running = fleet.tasks();
    }
    let mut events = Vec::new();
    for _ in 0..n.min(running.len().div_ceil(8)) {
        let at = (running.len() * 7 / 11).min(running.len().saturating_sub(1));
        let task = running.swap_remove(at);
        events.extend(fleet.end(task));
    }
    if events.is_empty() {
        return Err(failed("no job is running"));
    }
    let took = fleet.step(events)?;
    let answers = fleet.answers(false);
    fleet.step(answers)?;
    Ok(took)
}

/// The median of several runs, in milliseconds.
fn middle(rounds: usize, mut once: impl FnMut() -> Result<Duration>) -> Result<f64> {
    let mut measured = Vec::new();
    for _ in 0..rounds {
        measured.push(once()?.as_secs_f64() * 1000.0);
    }
    Ok(Ranked::of(measured).percentile(50))
}
