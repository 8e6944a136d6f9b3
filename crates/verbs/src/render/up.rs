//! The output of `gpool up`.

use std::collections::{BTreeMap, BTreeSet};

use gpool_cli::render::page::Page;
use gpool_cli::render::words::count;
use gpool_model::device::DeviceState;
use gpool_wire::{Gpu, Node, Status};

/// A server that has just started.
#[derive(Debug, Clone)]
pub struct Started<'a> {
    /// The version of this program.
    pub version: &'a str,
    /// The nodes by name; at least one.
    pub nodes: &'a [Node],
    pub gpus: &'a [Gpu],
    pub status: &'a Status,
    /// The summary of the recovery, if there is something to report.
    pub recovery: Option<String>,
    /// Whether it is the server of the machine.
    pub is_root: bool,
}

#[must_use]
pub fn text(started: &Started<'_>) -> String {
    let (nodes, gpus) = (started.nodes, started.gpus);
    let system = nodes.first().map_or("", |node| &node.system);
    let system = if system.is_empty() { String::new() } else { format!(" ({system})") };
    let from: BTreeSet<&str> = nodes.iter().map(|node| node.devices_from.as_str()).collect();
    let from = from.into_iter().collect::<Vec<_>>().join(", ");
    let version = started.version;
    let mut page = match nodes {
        [node] => Page::new(&format!("gpool {version} on {}{system}", node.name)),
        nodes => Page::new(&format!("gpool {version}, {} nodes{system}", nodes.len())),
    };
    match (nodes, models(gpus).as_slice()) {
        ([_], []) => page.label("found", &format!("no GPUs: {from}")),
        ([_], models) => {
            page.labels("found", models);
            page.label("driver", &from);
        }
        (nodes, _) => {
            let of_node = |node: &Node| {
                let here = models(gpus.iter().filter(|gpu| gpu.node == node.name));
                let here = if here.is_empty() { "no GPUs".to_owned() } else { here.join(", ") };
                format!("{}: {here}", node.name)
            };
            page.labels("nodes", &nodes.iter().map(of_node).collect::<Vec<_>>());
            page.label("driver", &from);
        }
    }
    let who = if started.is_root { "every local user may submit" } else { "only you can connect" };
    page.label("socket", &format!("{}   ({who})", started.status.socket));
    if let Some(web) = &started.status.web {
        page.label("pages", &format!("{web}   (sign in: gpool open)"));
    }
    let state = &started.status.state_dir;
    match &started.recovery {
        Some(recovery) => {
            page.label("state", state);
            page.label("recovered", recovery);
        }
        None => page.label("state", &format!("{state}   ({})", left_over(started.status))),
    }
    page.line(&format!("ready. Try: gpool run {}", example(started)));
    page.text()
}

/// A first job that works here: simulated GPUs have no driver, so programs of NVIDIA fail there.
fn example(started: &Started<'_>) -> &'static str {
    match started.gpus {
        [] => "-- uname -a",
        gpus if !gpus.iter().any(Gpu::is_simulated) => "--gpus 1 -- nvidia-smi",
        _ => "--gpus 1 -- sh -c 'echo GPU $GPOOL_GPUS'",
    }
}

/// How many jobs an earlier run left, if none of them still ran.
fn left_over(status: &Status) -> String {
    match status.jobs.values().sum() {
        0 => "no jobs of an earlier server".to_owned(),
        n => format!("{} of an earlier server", count(n, "job")),
    }
}

/// The number of devices of each model: `8 × NVIDIA A100-SXM4-80GB`.
fn models<'a>(gpus: impl IntoIterator<Item = &'a Gpu>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    // A device of an earlier run that is gone does not count.
    for gpu in gpus.into_iter().filter(|gpu| gpu.state != DeviceState::Lost) {
        *counts.entry(gpu.model.as_str()).or_default() += 1;
    }
    counts.into_iter().map(|(model, n)| format!("{n} × {model}")).collect()
}
