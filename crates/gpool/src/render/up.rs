//! What `gpool up` says about what it started.

use std::collections::BTreeMap;

use gpool_model::device::DeviceState;
use gpool_wire::{Gpu, Node, Status};

use super::page::Page;
use super::words::count;

/// A server that was just started.
#[derive(Debug, Clone)]
pub struct Started<'a> {
    /// Of this program.
    pub version: &'a str,
    /// Its node.
    pub node: &'a Node,
    /// Its devices.
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
    let Node { name, system, devices_from, .. } = started.node;
    let system = if system.is_empty() { String::new() } else { format!(" ({system})") };
    let mut page = Page::new(&format!("gpool {} on {name}{system}", started.version));
    match models(started.gpus).as_slice() {
        [] => page.label("found", &format!("no GPUs: {devices_from}")),
        models => {
            page.labels("found", models);
            page.label("driver", devices_from);
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
fn models(gpus: &[Gpu]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    // One that was there in an earlier run and is gone is no find.
    for gpu in gpus.iter().filter(|gpu| gpu.state != DeviceState::Lost) {
        *counts.entry(gpu.model.as_str()).or_default() += 1;
    }
    counts.into_iter().map(|(model, n)| format!("{n} × {model}")).collect()
}
