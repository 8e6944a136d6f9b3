//! Measures an array with many elements: submission, lists while all elements wait, the cost of a
//! change, and the throughput of small elements.

use std::time::{Duration, Instant};

use gpool_cli::cluster::Cluster;
use gpool_cli::failure::{Failure, Result};
use gpool_model::Indexes;
use gpool_model::array::ArraySpec;
use gpool_model::job::JobState;
use gpool_wire::JobCreate;

use super::figure::{Figure, Ranked};
use super::pending::{hold_all, time_command, until};
use super::process::cpu_ms_of;
use super::synthetic::{Fleet, job};
use super::{Options, failed};

/// Number of timed runs of a step.
const ROUNDS: usize = 51;

/// Measures an array behind a job with every GPU, one in the state machine only, and one with small
/// elements.
///
/// # Errors
/// The server refuses something, or an element fails.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let mut figures = waiting(options)?;
    figures.extend(step(options)?);
    figures.extend(drained(options)?);
    Ok(figures)
}

fn waiting(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(&options.devices)?;
    hold_all(&cluster)?;
    let n = options.pending;
    let began = Instant::now();
    let id = submit(&cluster, n, &["sleep", "1d"])?;
    let submit_s = began.elapsed().as_secs_f64();
    let queue = time_command(&cluster, &["queue"])?;
    let why = time_command(&cluster, &["why", &format!("{id}.{}", n.saturating_sub(1))])?;
    cluster.end()?;
    let of = format!("an array of {n} pending");
    Ok(vec![
        Figure::new(
            "array_submit_s",
            format!("durable submission of {n} in one array"),
            submit_s,
            "s",
        )
        .below(2.0),
        Figure::new("array_queue_ms", format!("gpool queue with {of}"), queue, "ms").below(200.0),
        Figure::new("array_why_ms", format!("gpool why of the last of {of}"), why, "ms")
            .below(200.0),
    ])
}

/// Times the step of the state machine for the end of one element of a large array.
fn step(options: &Options) -> Result<Vec<Figure>> {
    let mut fleet = Fleet::new(1)?;
    let indexes = Indexes::first_n(options.pending)
        .ok_or_else(|| failed("the array is larger than the maximum"))?;
    let array = Some(Box::new(ArraySpec { indexes, values: None, objective: None }));
    let event = fleet.submission(0, vec![job(0).with(|job| job.array = array)]);
    fleet.step(vec![event])?;
    let mut measured = Vec::new();
    for _ in 0..ROUNDS {
        let answers = fleet.answers(false);
        fleet.step(answers)?;
        let Some(task) = fleet.tasks().first().copied() else { break };
        let took: Duration = fleet.step(fleet.end(task).into_iter().collect())?;
        measured.push(took.as_secs_f64() * 1000.0);
    }
    let (n, took) = (options.pending, Ranked::of(measured).percentile(50));
    let what = format!("step after one element ended, {n} in the array");
    Ok(vec![Figure::new("array_step_ms", what, took, "ms").below(5.0)])
}

fn drained(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(&options.devices)?;
    let n = options.jobs;
    let cpu_before = cpu_ms_of(cluster.server_pid());
    let began = Instant::now();
    let id = submit(&cluster, n, &["/bin/true"])?;
    let ended = || cluster.client().job(&id).ok().map(|job| job.state).filter(|it| it.is_end());
    let state = until("the array of the benchmark did not end in time", ended)?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_ms = cpu_ms_of(cluster.server_pid()) - cpu_before;
    cluster.end()?;
    if state != JobState::Succeeded {
        return Err(failed("an element of the benchmark failed"));
    }
    let n = f64::from(n);
    let what = format!("drain of one array of {n} × true");
    Ok(vec![
        Figure::new("array_elements_per_s", what, n / seconds, "elements/s"),
        Figure::new("array_cpu_ms", "CPU time per element, true included", cpu_ms / n, "ms"),
    ])
}

fn submit(cluster: &Cluster, n: u32, command: &[&str]) -> Result<String> {
    let create = JobCreate {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        gpus: Some("1".to_owned()),
        directory: Some("/".to_owned()),
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        array: Some(format!("0-{}", n.saturating_sub(1))),
        ..JobCreate::default()
    };
    Ok(cluster.client().submit(&create, None).map_err(Failure::from)?.id)
}
