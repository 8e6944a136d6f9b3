//! `gpool bench history`: the store of utilization history against its targets, and against other
//! layouts in SQLite. All layouts store the same integers.

mod deltas;
mod fleet;
mod kept;
mod others;

use clap::ValueEnum;
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

/// Layouts of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// The store of gpool: a blob for each device and hour, each series as wide as it needs
    Store,
    /// A row for each device and minute
    Rows,
    /// A blob for each device and hour, compressed by zstd
    Blobs,
    /// A blob for each series, 64 devices and hour, compressed by zstd
    Columns,
}

/// The extent.
#[derive(Debug, Clone)]
pub struct Options {
    /// Nodes with eight devices.
    pub nodes: u32,
    /// Hours to write.
    pub hours: u32,
    /// Layouts to measure.
    pub layouts: Vec<Layout>,
}

/// The figures of one layout.
#[derive(Debug, Serialize)]
struct Measured {
    layout: Layout,
    figures: Vec<Figure>,
}

/// The report with all figures.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    n_devices: u32,
    hours: u32,
    layouts: Vec<Measured>,
}

/// Measures and prints figures, as text during the run or as one JSON document.
///
/// # Errors
/// A file can't be written or read. A missed target is not an error.
pub fn run(options: &Options, screen: &Screen) -> Result {
    let n_devices = Fleet::new(options.nodes).n_devices();
    let mut layouts = Vec::new();
    for &layout in &options.layouts {
        let figures = measure(layout, options)?;
        if !screen.json {
            let value = layout.to_possible_value();
            let help = value.as_ref().and_then(|value| value.get_help()).map(ToString::to_string);
            let lines: String = figures.iter().map(Figure::line).collect();
            let (help, hours) = (help.unwrap_or_default(), options.hours);
            screen.data(&format!("{help}; {n_devices} devices, {hours} h\n{lines}\n"))?;
        }
        layouts.push(Measured { layout, figures });
    }
    if screen.json {
        let version = env!("CARGO_PKG_VERSION");
        let report = Report { version, n_devices, hours: options.hours, layouts };
        let body = gpool_wire::Document::new(report);
        let text = serde_json::to_string_pretty(&body).unwrap_or_default();
        screen.data(&format!("{text}\n"))?;
    }
    Ok(Exit::OK)
}

/// Measures a layout.
///
/// # Errors
/// A file can't be written or read.
pub fn measure(layout: Layout, options: &Options) -> Result<Vec<Figure>> {
    let fleet = Fleet::new(options.nodes);
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let path = folder.path().join("history.db");
    match layout {
        Layout::Store => kept::measure(&path, &fleet, options.hours),
        Layout::Rows | Layout::Blobs | Layout::Columns => {
            others::measure(layout, &path, &fleet, options.hours)
        }
    }
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

/// A failure of a store.
fn of_store(error: impl std::fmt::Display) -> Failure {
    failed(format!("the history can't be measured: {error}"))
}
