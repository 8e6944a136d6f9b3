//! `gpool bench`: what starting a job costs on this machine, measured from outside: a cluster of
//! its own with simulated devices, real processes, everything durable.

mod drain;
mod stamp;
mod start;

use serde::Serialize;

use crate::demo::Cluster;
use crate::exit::Exit;
use crate::failure::Result;
use crate::screen::Screen;

pub use stamp::{STAMP_ARGUMENT, write_stamp};

/// What is measured, and how often.
#[derive(Debug, Clone)]
pub struct Options {
    /// Submissions of which the way to the first instruction is timed.
    pub starts: u32,
    /// Jobs of each drain.
    pub jobs: u32,
    /// Devices of the cluster, as for `up --devices`.
    pub devices: String,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
struct Report {
    start_ms: Quantiles,
    submit_ms: Quantiles,
    drain: drain::Drain,
    server_memory_bytes: u64,
}

/// Of sorted measurements.
#[derive(Debug, Clone, Copy, Serialize)]
struct Quantiles {
    n: usize,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

/// Measures and writes figures, as text or as one JSON document.
///
/// # Errors
/// The cluster can't be started, or a job does not succeed.
pub fn run(options: &Options, screen: &Screen) -> Result {
    let cluster = Cluster::start(&options.devices)?;
    let (start_ms, submit_ms) = start::measure(&cluster, options.starts)?;
    let server_memory_bytes = drain::memory_of(cluster.server_pid());
    let drain = drain::measure(&cluster, options.jobs)?;
    cluster.end()?;
    let report = Report { start_ms, submit_ms, drain, server_memory_bytes };
    if screen.json {
        let body = gpool_wire::Document::new(report);
        let text = serde_json::to_string_pretty(&body).unwrap_or_default();
        screen.data(&format!("{text}\n"))?;
    } else {
        screen.data(&words(&report, options))?;
    }
    Ok(Exit::OK)
}

fn words(report: &Report, options: &Options) -> String {
    let line = |what: &str, q: &Quantiles| {
        format!(
            "{what:42} p50 {:6.2} ms  p90 {:6.2}  p99 {:6.2}  max {:6.2}  ({} runs)\n",
            q.p50, q.p90, q.p99, q.max, q.n
        )
    };
    let drain = &report.drain;
    let mut text = format!("devices {}\n", options.devices);
    text += &line("submit (CLI) → first instruction", &report.start_ms);
    text += &line("submit (CLI), the command alone", &report.submit_ms);
    text += &format!(
        "{:42} {:.0} jobs/s, {:.2} ms CPU a job ({} × true)\n",
        "drain, one bulk submission", drain.jobs_per_s, drain.cpu_ms_per_job, drain.n_jobs
    );
    text += &format!(
        "{:42} {:.1} MB\n",
        "server memory, idle",
        report.server_memory_bytes as f64 / 1e6
    );
    text
}

impl Quantiles {
    fn of(mut measured: Vec<f64>) -> Self {
        measured.sort_by(f64::total_cmp);
        let n = measured.len();
        let at = |percent: usize| {
            let ix = (n * percent).div_ceil(100).saturating_sub(1);
            measured.get(ix.min(n.saturating_sub(1))).copied().unwrap_or(f64::NAN)
        };
        Self { n, p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_nearest_rank() {
        let measured = (1..=100).map(f64::from).rev().collect();
        let Quantiles { n, p50, p90, p99, max } = Quantiles::of(measured);
        assert_eq!((n, p50, p90, p99, max), (100, 50.0, 90.0, 99.0, 100.0));
    }
}
