//! `gpool bench faults`: provokes each fault that one machine can have, on private clusters with
//! real processes, and prints the results against the targets. It counts ids, lines that jobs wrote
//! and exit codes, and does not rely on the server's own reports.

mod clock;
mod crash;
mod crowd;
mod devices;
mod disk;
mod escape;
mod old;
mod reuse;
mod rig;
mod slow;
mod torn;

use std::path::PathBuf;

use clap::ValueEnum;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::screen::Screen;
use serde::Serialize;

use super::figure::Figure;
pub use crowd::become_user;
pub use rig::Stop;

/// A fault that can be provoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// kill -9 of the server under load
    Kill,
    /// kill -9 of the agent while jobs run and end
    Agentkill,
    /// A full disk with the state
    Diskfull,
    /// Flipped bits in the store's files
    Torn,
    /// A clock that jumps, goes back and runs fast
    Clock,
    /// GPUs that hang, break and are lost
    Nvml,
    /// Process ids reused by other processes
    Pidreuse,
    /// A job that exceeds its memory
    Oom,
    /// A job with processes that try to escape
    Fork,
    /// 100,000 waiting jobs of 1,000 users
    #[value(name = "100k")]
    #[serde(rename = "100k")]
    Crowd,
    /// Deliberately slow clients
    Slow,
    /// A foreign process on a GPU
    Rival,
    /// A state folder of an earlier version
    Upgrade,
}

/// The faults to provoke, and the extent.
#[derive(Debug, Clone)]
pub struct Options {
    /// The faults; empty means all.
    pub faults: Vec<Fault>,
    /// Fewer repetitions.
    pub quick: bool,
    /// A state folder of an earlier version, or an archive of one.
    pub kept: Option<PathBuf>,
}

impl Options {
    /// An extent: full or quick.
    pub fn amount(&self, full: u32, quick: u32) -> u32 {
        if self.quick { quick } else { full }
    }
}

/// The result of one fault.
#[derive(Debug, Serialize)]
pub struct Row {
    fault: Fault,
    /// The action, for people.
    did: String,
    figures: Vec<Figure>,
    /// Why the fault was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
}

/// The result of a fault, without its name.
pub enum Outcome {
    /// The fault was provoked.
    Done {
        /// The action, for people.
        did: String,
        /// The measured values.
        figures: Vec<Figure>,
    },
    /// The fault can't be provoked here.
    Skipped {
        /// The reason.
        why: String,
    },
}

impl Outcome {
    /// A skipped fault with the reason.
    pub fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped { why: why.into() }
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    version: &'static str,
    faults: &'a [Row],
}

/// Provokes faults and prints the results, as text during the run or as one JSON document. A missed
/// target makes the exit code 1.
///
/// # Errors
/// A cluster can't be started, an expected event never happens, or the user interrupts; in each
/// case everything that was started is ended.
pub fn run(options: &Options, screen: &Screen) -> Result {
    if reuse::is_inside() {
        return reuse::inside(screen);
    }
    let stop = Stop::watch()?;
    let mut rows = Vec::new();
    for fault in chosen(options) {
        let row = row(fault, provoke(fault, options, &stop)?);
        if !screen.json {
            screen.data(&text(&row))?;
        }
        rows.push(row);
    }
    if screen.json {
        let report = Report { version: env!("CARGO_PKG_VERSION"), faults: &rows };
        let body = gpool_wire::Document::new(report);
        let text = serde_json::to_string_pretty(&body).unwrap_or_default();
        screen.data(&format!("{text}\n"))?;
    } else {
        screen.data(&summary(&rows))?;
    }
    Ok(if n_missed(&rows) == 0 { Exit::OK } else { Exit::FAILED })
}

/// The faults to provoke.
pub fn chosen(options: &Options) -> Vec<Fault> {
    match options.faults.as_slice() {
        [] => Fault::value_variants().to_vec(),
        some => some.to_vec(),
    }
}

fn provoke(fault: Fault, options: &Options, stop: &Stop) -> Result<Outcome> {
    match fault {
        Fault::Kill => crash::server(options, stop),
        Fault::Agentkill => crash::agent(options, stop),
        Fault::Diskfull => disk::full(options, stop),
        Fault::Torn => torn::measure(options, stop),
        Fault::Clock => clock::measure(options, stop),
        Fault::Nvml => devices::driver(options, stop),
        Fault::Pidreuse => reuse::measure(),
        Fault::Oom => escape::memory(options, stop),
        Fault::Fork => escape::processes(options, stop),
        Fault::Crowd => crowd::measure(options, stop),
        Fault::Slow => slow::measure(options, stop),
        Fault::Rival => devices::rival(options, stop),
        Fault::Upgrade => old::measure(options, stop),
    }
}

/// The row of the report.
pub fn row(fault: Fault, outcome: Outcome) -> Row {
    match outcome {
        Outcome::Done { did, figures } => Row { fault, did, figures, skipped: None },
        Outcome::Skipped { why } => {
            Row { fault, did: String::new(), figures: Vec::new(), skipped: Some(why) }
        }
    }
}

/// The number of missed targets.
pub fn n_missed(rows: &[Row]) -> usize {
    let figures = rows.iter().flat_map(|row| &row.figures);
    figures.filter(|figure| figure.reached == Some(false)).count()
}

/// A row as lines of text.
pub fn text(row: &Row) -> String {
    let value = row.fault.to_possible_value();
    let name = value.as_ref().map_or("", |value| value.get_name()).to_owned();
    match &row.skipped {
        Some(why) => format!("{name}: skipped: {why}\n\n"),
        None => {
            let lines: String = row.figures.iter().map(Figure::line).collect();
            format!("{name}: {}\n{lines}\n", row.did)
        }
    }
}

/// The closing line: reached targets and skipped faults.
pub fn summary(rows: &[Row]) -> String {
    let n_skipped = rows.iter().filter(|row| row.skipped.is_some()).count();
    let figures = rows.iter().flat_map(|row| &row.figures);
    let n_bars = figures.filter(|figure| figure.reached.is_some()).count();
    let n_reached = n_bars - n_missed(rows);
    format!(
        "{n_reached} of {n_bars} targets reached, {n_skipped} of {} faults skipped\n",
        rows.len()
    )
}
