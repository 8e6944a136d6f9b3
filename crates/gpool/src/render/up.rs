//! What `gpool up` says about what it started.

use std::collections::{BTreeMap, BTreeSet};

use gpool_cli::render::page::Page;
use gpool_cli::render::words::count;
use gpool_model::device::DeviceState;
use gpool_wire::{Gpu, Node, Status};

/// A server that was just started.
#[derive(Debug, Clone)]
pub struct Started<'a> {
    /// Of this program.
    pub version: &'a str,
    /// Its nodes, by name; at least one.
    pub nodes: &'a [Node],
    /// Their devices.
    pub gpus: &'a [Gpu],
    /// What it says of itself.
    pub status: &'a Status,
    /// What it found when it started, if there is something to tell.
    pub recovery: Option<String>,
    /// Whether it is the machine's.
    pub is_root: bool,
}

/// The page.
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
    let who = if started.is_root { "every local user may submit" } else { "only you may enter" };
    page.label("socket", &format!("{}   ({who})", started.status.socket));
    let state = &started.status.state_dir;
    match &started.recovery {
        Some(recovery) => {
            page.label("state", state);
            page.label("recovered", recovery);
        }
        None => page.label("state", &format!("{state}   ({})", left_over(started.status))),
    }
    let example =
        if started.gpus.is_empty() { "run -- uname -a" } else { "run --gpus 1 -- nvidia-smi" };
    page.line(&format!("ready. Try: gpool {example}"));
    page.text()
}

/// What an earlier run has left, where nothing of it was running.
fn left_over(status: &Status) -> String {
    match status.jobs.values().sum() {
        0 => "nothing left over from an earlier run".to_owned(),
        n => format!("{} left over from an earlier run", count(n, "job")),
    }
}

/// How many of each model: `8 × NVIDIA A100-SXM4-80GB`.
fn models<'a>(gpus: impl IntoIterator<Item = &'a Gpu>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    // One that was there in an earlier run and is gone is no find.
    for gpu in gpus.into_iter().filter(|gpu| gpu.state != DeviceState::Lost) {
        *counts.entry(gpu.model.as_str()).or_default() += 1;
    }
    counts.into_iter().map(|(model, n)| format!("{n} × {model}")).collect()
}
