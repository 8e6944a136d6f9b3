//! `gpool bench`: the costs of gpool on this machine against their targets. Parts that need a
//! server start a private one with simulated devices in a temporary folder, and measure from
//! outside: real processes, everything durable. Parts about very large clusters run the state
//! machine itself.

mod agents;
mod arrays;
mod attack;
mod browse;
mod burst;
mod crowd;
mod cycle;
mod drain;
pub mod faults;
pub mod figure;
mod flow;
mod gateway;
pub mod history;
mod http;
mod idle;
pub mod load;
mod pending;
pub mod process;
mod shares;
mod stamp;
mod start;
pub mod synthetic;
mod viewers;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use gpool_cli::cluster::{Cluster, Setup};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::program;
use gpool_cli::screen::Screen;
use gpool_device::DevicesArg;
use serde::Serialize;

use figure::Figure;
pub use http::{SERVER_ARGUMENT, serve as serve_http};
pub use stamp::{STAMP_ARGUMENT, write_stamp};

/// A group of figures that are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// From the submit command to the first instruction of the job
    Start,
    /// Durable submissions per second, by one and by many clients
    Submit,
    /// Many short jobs, from the submission to the last end
    Drain,
    /// An idle server with its agent, which checks the GPUs
    Idle,
    /// Many waiting jobs: bulk submission, memory, queue, why, kill -9 and restart
    Pending,
    /// Jobs through the state machine of a large cluster, with agents that answer at once
    // Before the next part: memory that it frees would hide the memory of this one.
    Flow,
    /// Scheduling cycles of a large cluster, in this process
    Cycle,
    /// Cycles of a large cluster that many projects share, and reclaim, in this process
    Shares,
    /// One array of many elements: submission, queue, why, a step, and small elements drained
    Arrays,
    /// Submissions of one user while another lists a long queue on many connections
    Crowd,
    /// Submissions of one user while another floods each route on many connections
    Attack,
    /// Viewers of the dashboard while jobs change, and the pages of a long queue
    Viewers,
    /// Requests through the gateway of a service, beside nginx, and while replicas change
    Gateway,
    /// Agents of many machines over TLS: at rest, orders to them, their return after a crash
    Agents,
}

/// The parts to measure, and their extent.
#[derive(Debug, Clone)]
pub struct Options {
    /// The parts.
    pub parts: Vec<Part>,
    /// Submissions with a timed start of the job.
    pub starts: u32,
    /// Jobs of the drain.
    pub jobs: u32,
    /// Submissions of each load.
    pub submissions: u32,
    /// Clients of the load with many.
    pub clients: u32,
    /// Waiting jobs.
    pub pending: u32,
    /// Seconds of watching an idle server.
    pub idle_s: u32,
    /// Nodes of the large cluster, with eight GPUs each.
    pub nodes: u32,
    /// Machines with an agent each; measured by root only.
    pub agents: u32,
    /// Kinds of requests that one user sends beside another.
    pub floods: u32,
    /// Rounds of 3 s for each way to a service.
    pub gateway_rounds: u32,
    /// Scale-downs, updates and kills of a service.
    pub gateway_changes: u32,
    /// Devices of the private clusters, as for `up --devices`.
    pub devices: String,
}

impl Options {
    /// The extent for publishable figures.
    #[must_use]
    pub fn full() -> Self {
        Self {
            parts: usual_parts(),
            starts: 200,
            jobs: 1000,
            submissions: 20_000,
            clients: 64,
            pending: 100_000,
            idle_s: 30,
            nodes: 10_000,
            agents: 5000,
            floods: u32::MAX,
            gateway_rounds: 9,
            gateway_changes: 100,
            devices: "sim:8xH100-80G".to_owned(),
        }
    }

    /// The extent for an order of magnitude within seconds.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            starts: 30,
            jobs: 200,
            submissions: 2000,
            pending: 10_000,
            idle_s: 3,
            nodes: 1000,
            agents: 500,
            floods: 6,
            gateway_rounds: 1,
            gateway_changes: 6,
            ..Self::full()
        }
    }
}

/// All parts that this user can measure.
fn usual_parts() -> Vec<Part> {
    let can_be = |part: &Part| *part != Part::Agents || agents::can_be_measured();
    Part::value_variants().iter().copied().filter(can_be).collect()
}

/// The report with all figures.
#[derive(Debug, Serialize)]
struct Report<'a> {
    version: &'static str,
    parts: &'a [Measured],
}

/// The figures of one part.
#[derive(Debug, Serialize)]
struct Measured {
    part: Part,
    figures: Vec<Figure>,
}

/// Measures and prints figures, as text during the run or as one JSON document.
///
/// # Errors
/// A cluster can't be started, or a job does not succeed. A missed target is not an error.
pub fn run(options: &Options, screen: &Screen) -> Result {
    let mut parts = Vec::new();
    for part in options.parts.iter().copied() {
        let figures = measure(part, options)?;
        if !screen.json {
            screen.data(&text(part, &figures))?;
        }
        parts.push(Measured { part, figures });
    }
    if screen.json {
        let report = Report { version: env!("CARGO_PKG_VERSION"), parts: &parts };
        let body = gpool_wire::Document::new(report);
        let text = serde_json::to_string_pretty(&body).unwrap_or_default();
        screen.data(&format!("{text}\n"))?;
    }
    Ok(Exit::OK)
}

/// Measures a part.
///
/// # Errors
/// A cluster can't be started, or a job does not succeed.
pub fn measure(part: Part, options: &Options) -> Result<Vec<Figure>> {
    match part {
        Part::Start => start::measure(options),
        Part::Submit => burst::measure(options),
        Part::Drain => drain::measure(options),
        Part::Idle => idle::measure(options),
        Part::Pending => pending::measure(options),
        Part::Flow => flow::measure(options),
        Part::Cycle => cycle::measure(options),
        Part::Shares => shares::measure(options),
        Part::Arrays => arrays::measure(options),
        Part::Crowd => crowd::measure(options),
        Part::Attack => attack::measure(options),
        Part::Viewers => viewers::measure(options),
        Part::Gateway => gateway::measure(options),
        Part::Agents => agents::measure(options),
    }
}

/// The figures of a part as lines of text.
pub fn text(part: Part, figures: &[Figure]) -> String {
    let value = part.to_possible_value();
    let name = value.as_ref().map_or("", |value| value.get_name());
    let help = value.as_ref().and_then(|value| value.get_help()).map(ToString::to_string);
    let lines: String = figures.iter().map(Figure::line).collect();
    format!("{name}: {}\n{lines}\n", help.unwrap_or_default())
}

/// Starts a private cluster with these devices.
fn cluster(devices: &str) -> Result<Cluster> {
    cluster_on(devices, None)
}

/// Starts a private cluster with these devices that also listens on the network.
fn cluster_on(devices: &str, listen: Option<SocketAddr>) -> Result<Cluster> {
    Cluster::start(Setup {
        program: gpool()?,
        devices: devices.to_owned(),
        are_named: DevicesArg::names_nodes(devices),
        listen,
    })
}

/// The measured program: the one beside this one, or else the one in `PATH`.
fn gpool() -> Result<PathBuf> {
    program::find("gpool").ok_or_else(|| {
        failed("there is no program gpool")
            .why("it is not in the folder of gpool-lab, and not in PATH")
            .tip("cargo build --package gpool   (from a checkout, beside gpool-lab)")
    })
}

/// A failure of the benchmark itself.
fn failed(why: impl Into<String>) -> Failure {
    Failure::new(errors::DEMO_FAILED, why)
}
