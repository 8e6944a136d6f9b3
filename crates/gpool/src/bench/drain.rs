//! How fast many small jobs go through.

use std::io::Cursor;
use std::time::Instant;

use gpool_client::{JobsQuery, new_key};
use gpool_wire::EventKind;
use serde::Serialize;

use super::stamp::now_ns;
use crate::demo::Cluster;
use crate::errors;
use crate::failure::{Failure, Result};

/// What draining a queue cost.
#[derive(Debug, Serialize)]
pub struct Drain {
    /// Jobs.
    pub n_jobs: u32,
    /// From the submission to the last end.
    pub seconds: f64,
    /// Jobs a second.
    pub jobs_per_s: f64,
    /// CPU time of the server, its agent, the shepherds and the jobs.
    pub cpu_ms_per_job: f64,
}

/// Submits `n_jobs` times `true`, one GPU each, and waits until all have ended.
pub fn measure(cluster: &Cluster, n_jobs: u32) -> Result<Drain> {
    let line = "{\"command\":[\"/bin/true\"],\"gpus\":\"1\",\"directory\":\"/\"}\n";
    let lines = line.repeat(usize::try_from(n_jobs).unwrap_or(0));
    let events = cluster.client().events(None).map_err(Failure::from)?;
    let cpu_before = cpu_ms_of(cluster.server_pid());
    let began = now_ns();
    let deadline = Instant::now() + crate::demo::PATIENCE;
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
            // Too slow to be told of each: ask how many are left.
            EventKind::Resync => n_left = n_live(cluster)?,
            _ => {}
        }
        if n_left == 0 {
            break;
        }
        if Instant::now() > deadline {
            return Err(Failure::new(errors::DEMO_FAILED, "the jobs of the benchmark do not end"));
        }
    }
    let seconds = (now_ns() - began) as f64 / 1e9;
    let cpu_ms = cpu_ms_of(cluster.server_pid()) - cpu_before;
    check(cluster, n_jobs)?;
    Ok(Drain {
        n_jobs,
        seconds,
        jobs_per_s: f64::from(n_jobs) / seconds,
        cpu_ms_per_job: cpu_ms / f64::from(n_jobs.max(1)),
    })
}

fn n_live(cluster: &Cluster) -> Result<u32> {
    let status = cluster.client().status().map_err(Failure::from)?;
    Ok(u32::try_from(status.jobs.values().sum::<u64>()).unwrap_or(u32::MAX))
}

/// A benchmark of jobs that fail measures something else.
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
            let what = format!("of {n_jobs} jobs, job {} ended as {}", job.id, job.state);
            Err(Failure::new(errors::DEMO_FAILED, what))
        }
    }
}

/// CPU time of a process, of all below it that live (such as the one that forks shepherds), and of
/// all that have ended and been waited for.
fn cpu_ms_of(pid: u32) -> f64 {
    let all = gpool_sys::proc::descendants(pid);
    let ticks: u64 = std::iter::once(pid).chain(all).map(cpu_ticks_of).sum();
    ticks as f64 * 1000.0 / rustix::param::clock_ticks_per_second() as f64
}

/// Of a process and of its children that have ended and been waited for.
fn cpu_ticks_of(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is in parentheses and may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().skip(11).take(4).filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// Resident memory of a process, in bytes.
pub fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
