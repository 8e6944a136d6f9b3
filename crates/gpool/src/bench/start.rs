//! From the start of the command line to the first instruction of the job.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Quantiles;
use super::stamp::{STAMP_ARGUMENT, now_ns};
use crate::demo::Cluster;
use crate::errors;
use crate::failure::{Failure, Result};

/// One job at a time on an idle cluster: to its first instruction, and to the end of the command.
pub fn measure(cluster: &Cluster, n_starts: u32) -> Result<(Quantiles, Quantiles)> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::new(errors::DEMO_FAILED, format!("can't find gpool: {error}")))?;
    let mut to_start = Vec::new();
    let mut to_end = Vec::new();
    // The first few warm caches, and are what a user meets once.
    const WARM_UP: u32 = 3;
    for n in 0..n_starts + WARM_UP {
        let path = cluster.folder().join(format!("stamp-{n}"));
        let began = now_ns();
        let status = Command::new(&own)
            .args(["submit", "--quiet", "--gpus", "1", "--clean-env", "--"])
            .arg(&own)
            .arg(STAMP_ARGUMENT)
            .arg(&path)
            .env("GPOOL_SOCKET", cluster.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        let ended = now_ns();
        if !status.is_ok_and(|status| status.success()) {
            return Err(Failure::new(errors::DEMO_FAILED, "a submission of the benchmark failed"));
        }
        let started = wait_for_stamp(&path)?;
        if n >= WARM_UP {
            to_start.push(millis(started.saturating_sub(began)));
            to_end.push(millis(ended - began));
        }
    }
    Ok((Quantiles::of(to_start), Quantiles::of(to_end)))
}

fn wait_for_stamp(path: &Path) -> Result<u64> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(text) = std::fs::read_to_string(path) {
            let stamp = text.parse().ok();
            return stamp.ok_or_else(|| Failure::new(errors::DEMO_FAILED, "a stamp is no number"));
        }
        if Instant::now() > deadline {
            return Err(Failure::new(errors::DEMO_FAILED, "a job of the benchmark did not start"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}
