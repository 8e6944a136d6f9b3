//! Measures the throughput of many small jobs.

use std::io::Cursor;
use std::time::Instant;

use gpool_cli::cluster::Cluster;
use gpool_cli::failure::{Failure, Result};
use gpool_client::{JobsQuery, new_key};
use gpool_wire::EventKind;

use super::figure::Figure;
use super::process::cpu_ms_of;
use super::stamp::now_ns;
use super::{Options, failed};

/// Submits `true` many times with one GPU each, and waits until all have ended. The CPU time is the
/// sum of the server, its agent, the shepherds and the jobs.
///
/// # Errors
/// A job does not succeed.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(&options.devices)?;
    // The first jobs are not typical: files, threads and memory are new.
    drain(&cluster, options.jobs.div_ceil(10))?;
    let (seconds, cpu_ms) = drain(&cluster, options.jobs)?;
    cluster.end()?;
    let n_jobs = f64::from(options.jobs);
    let what = format!("drain of {} × true", options.jobs);
    Ok(vec![
        Figure::new("drain_jobs_per_s", what, n_jobs / seconds, "jobs/s").above(1000.0),
        Figure::new(
            "drain_cpu_ms_per_job",
            "CPU time per job, true included",
            cpu_ms / n_jobs,
            "ms",
        )
        .below(1.7),
    ])
}

/// Returns the seconds from the submission to the last end, and the milliseconds of CPU time.
fn drain(cluster: &Cluster, n_jobs: u32) -> Result<(f64, f64)> {
    let line = "{\"command\":[\"/bin/true\"],\"gpus\":\"1\",\"directory\":\"/\"}\n";
    let lines = line.repeat(usize::try_from(n_jobs).unwrap_or(0));
    let events = cluster.client().events(None).map_err(Failure::from)?;
    let cpu_before = cpu_ms_of(cluster.server_pid());
    let began = now_ns();
    let deadline = Instant::now() + gpool_cli::cluster::PATIENCE;
    cluster
        .client()
        .submit_many(&mut Cursor::new(lines.into_bytes()), Some(&new_key()))
        .map_err(Failure::from)?;
    let mut n_left = n_jobs;
    for event in events {
        match event.map_err(Failure::from)?.kind {
            EventKind::JobState { state, .. } if state.is_end() => {
                n_left = n_left.saturating_sub(1);
            }
            // The server dropped events, so ask how many jobs are left.
            EventKind::Resync => n_left = n_live(cluster)?,
            _ => {}
        }
        if n_left == 0 {
            break;
        }
        if Instant::now() > deadline {
            return Err(failed("the jobs of the benchmark did not end in time"));
        }
    }
    let seconds = (now_ns() - began) as f64 / 1e9;
    let cpu_ms = cpu_ms_of(cluster.server_pid()) - cpu_before;
    check(cluster, n_jobs)?;
    Ok((seconds, cpu_ms))
}

fn n_live(cluster: &Cluster) -> Result<u32> {
    let status = cluster.client().status().map_err(Failure::from)?;
    Ok(u32::try_from(status.jobs.values().sum::<u64>()).unwrap_or(u32::MAX))
}

/// Fails if a job failed: that would measure something else.
fn check(cluster: &Cluster, n_jobs: u32) -> Result<()> {
    let query = JobsQuery {
        state: Some("failed,lost,cancelled".to_owned()),
        limit: Some(1),
        ..JobsQuery::default()
    };
    let bad = cluster.client().jobs(&query).map_err(Failure::from)?;
    match bad.items.first() {
        None => Ok(()),
        Some(job) => {
            Err(failed(format!("of {n_jobs} jobs, job {} ended as {}", job.id, job.state)))
        }
    }
}
