//! Measures the time from the start of the command line to the first instruction of the job.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpool_cli::failure::Result;

use super::figure::{Figure, Ranked};
use super::stamp::{STAMP_ARGUMENT, now_ns};
use super::{Options, failed};

/// Measures one job at a time on an idle cluster: to its first instruction, and to the end of the
/// command.
///
/// # Errors
/// A job is refused or does not start.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(&options.devices)?;
    let gpool = super::gpool()?;
    let own = std::env::current_exe()
        .map_err(|error| failed(format!("can't find this program: {error}")))?;
    let sync = sync_ms(cluster.folder())?;
    let mut to_start = Vec::new();
    let mut to_end = Vec::new();
    // The first runs warm the caches; users have this cost once.
    const WARM_UP: u32 = 3;
    for n in 0..options.starts + WARM_UP {
        let path = cluster.folder().join(format!("stamp-{n}"));
        let began = now_ns();
        let status = Command::new(&gpool)
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
            return Err(failed("a submission of the benchmark failed"));
        }
        let started = wait_for_stamp(&path)?;
        if n >= WARM_UP {
            to_start.push(millis(started.saturating_sub(began)));
            to_end.push(millis(ended - began));
        }
    }
    cluster.end()?;
    let (to_start, to_end) = (Ranked::of(to_start), Ranked::of(to_end));
    let (p50, p99) = (to_start.percentile(50), to_start.percentile(99));
    let command = to_end.percentile(50);
    Ok(vec![
        Figure::new("start_p50_ms", "submit → first instruction, p50", p50, "ms")
            .below(5.0)
            .with_samples(to_start.all()),
        Figure::new("start_p99_ms", "submit → first instruction, p99", p99, "ms").below(20.0),
        Figure::new("submit_p50_ms", "the submit command alone, p50", command, "ms"),
        Figure::new("sync_p50_ms", "one write of 4 KiB with its sync, p50", sync, "ms"),
    ])
}

/// The disk's part of a submission: the median of some synced writes, in milliseconds.
fn sync_ms(folder: &Path) -> Result<f64> {
    let measure = || -> std::io::Result<Ranked> {
        let mut file = std::fs::File::create(folder.join("sync"))?;
        let mut measured = Vec::new();
        for _ in 0..50 {
            let began = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            measured.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(Ranked::of(measured))
    };
    let measured = measure().map_err(|error| failed(format!("can't write a file: {error}")))?;
    Ok(measured.percentile(50))
}

fn wait_for_stamp(path: &Path) -> Result<u64> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(text) = std::fs::read_to_string(path) {
            return text.parse().map_err(|_| failed("a time stamp is not a number"));
        }
        if Instant::now() > deadline {
            return Err(failed("a job of the benchmark did not start in time"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}
