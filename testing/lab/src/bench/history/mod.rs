//! `gpool bench history`: the store of utilization history against its targets.

mod fleet;
mod store;

use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::screen::Screen;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::failed;
use super::figure::Figure;
pub(super) use fleet::Fleet;

/// The number of devices that the targets are about.
const SIZING: f64 = 80_000.0;

/// The extent.
#[derive(Debug, Clone)]
pub struct Options {
    /// Nodes with eight devices.
    pub nodes: u32,
    /// Hours to write.
    pub hours: u32,
}

/// The report with all figures.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    n_devices: u32,
    hours: u32,
    figures: Vec<Figure>,
}

/// Measures and prints figures, as text or as one JSON document.
///
/// # Errors
/// A file can't be written or read. A missed target is not an error.
pub fn run(options: &Options, screen: &Screen) -> Result {
    let (n_devices, hours) = (Fleet::new(options.nodes).n_devices(), options.hours);
    let figures = measure(options)?;
    if screen.json {
        let version = env!("CARGO_PKG_VERSION");
        let body = gpool_wire::Document::new(Report { version, n_devices, hours, figures });
        let text = serde_json::to_string_pretty(&body).unwrap_or_default();
        screen.data(&format!("{text}\n"))?;
    } else {
        let lines: String = figures.iter().map(Figure::line).collect();
        screen.data(&format!("{n_devices} devices, {hours} h\n{lines}"))?;
    }
    Ok(Exit::OK)
}

/// Measures the store.
///
/// # Errors
/// A file can't be written or read.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let fleet = Fleet::new(options.nodes);
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    store::measure(&folder.path().join("history.db"), &fleet, options.hours)
}

/// The figures of writing: CPU time of one core for the minutes of 80,000 devices, and size.
fn writing(cpu_s: f64, bytes: f64, fleet: &Fleet, hours: u32) -> [Figure; 2] {
    let n = f64::from(fleet.n_devices()) * f64::from(hours) * 60.0;
    let percent = cpu_s / n * SIZING / 60.0 * 100.0;
    [
        Figure::new("history_device_minute_bytes", "bytes of a device-minute", bytes / n, "B")
            .below(16.0),
        Figure::new("history_ingest_percent", "a core for 80,000 devices", percent, "%")
            .below(10.0),
    ]
}

/// Times reads: the median of several, in milliseconds.
fn median_ms(mut read: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let began = std::time::Instant::now();
        read()?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(super::figure::Ranked::of(times).percentile(50))
}

/// CPU time of this process in seconds.
fn cpu_s() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn of_store(error: impl std::fmt::Display) -> Failure {
    failed(format!("the history can't be measured: {error}"))
}
