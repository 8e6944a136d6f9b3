//! What `gpool up` says about what it started.

use std::collections::BTreeMap;

use gpool_model::device::DeviceState;
use gpool_wire::{Gpu, Node, Status};

use super::page::Page;

/// A server that was just started.
#[derive(Debug, Clone, Copy)]
pub struct Started<'a> {
    /// Of this program.
    pub version: &'a str,
    /// Its node.
    pub node: &'a Node,
    /// Its devices.
    pub gpus: &'a [Gpu],
    /// What it says of itself.
    pub status: &'a Status,
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
    let n_jobs: u64 = started.status.jobs.values().sum();
    let left = match n_jobs {
        0 => "nothing left over from an earlier run".to_owned(),
        1 => "1 job taken over from an earlier run".to_owned(),
        n => format!("{n} jobs taken over from an earlier run"),
    };
    page.label("state", &format!("{}   ({left})", started.status.state_dir));
    let example =
        if started.gpus.is_empty() { "run -- uname -a" } else { "run --gpus 1 -- nvidia-smi" };
    page.line(&format!("ready. Try: gpool {example}"));
    page.text()
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
