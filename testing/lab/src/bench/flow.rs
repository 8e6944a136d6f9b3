//! Measures many jobs from submission to end in the state machine of a large cluster with agents
//! that answer at once: the limit of the server's single thread.

use std::time::{Duration, Instant};

use gpool_cli::failure::Result;

use super::Options;
use super::figure::Figure;
use super::process::memory_of;
use super::synthetic::{Fleet, USERS, job};

/// Jobs per submission.
const BATCH: u32 = 1000;

/// Uses a tenth of the nodes of the other parts, and as many jobs as wait there.
///
/// # Errors
/// The state machine refuses something.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let own = std::process::id();
    let before = memory_of(own);
    let n_nodes = options.nodes.div_ceil(10);
    let mut fleet = Fleet::new(n_nodes)?;
    let n_jobs = options.pending;
    let began = Instant::now();
    let mut took = Duration::ZERO;
    for first in (0..n_jobs).step_by(BATCH as usize) {
        let jobs = (first..n_jobs.min(first + BATCH)).map(job).collect();
        let event = fleet.submission(first / BATCH, jobs);
        took += fleet.step(vec![event])?;
    }
    let submitted_s = took.as_secs_f64();
    let memory = memory_of(own).saturating_sub(before);
    while fleet.n_live() > 0 {
        let answers = fleet.answers(true);
        took += fleet.step(answers)?;
    }
    let all_s = began.elapsed().as_secs_f64();
    let us_per_job = took.as_secs_f64() * 1e6 / f64::from(n_jobs);
    let what = format!("{n_jobs} jobs of {USERS} users through {n_nodes} nodes");
    Ok(vec![
        Figure::new("flow_us_per_job", format!("{what}: state machine per job"), us_per_job, "µs"),
        Figure::new("flow_submit_s", "from the first submission to the last", submitted_s, "s"),
        Figure::new("flow_s", "from the first submission to the last end", all_s, "s"),
        Figure::new("flow_memory_mb", "memory with all submitted", memory as f64 / 1e6, "MB")
            .below(300.0),
    ])
}
