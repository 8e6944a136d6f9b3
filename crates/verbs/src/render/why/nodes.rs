//! The GPUs of each node for a waiting job: how many are free, and what uses the others.

use std::cmp::Reverse;

use gpool_cli::render::view::View;
use gpool_cli::render::words::{count, indexes};
use gpool_model::device::DeviceState;
use gpool_wire::{Reason, Why, WhyDevice, WhyNode, WhyReserved};

use crate::render::gpus::device_state;

/// Most nodes with their own sentence.
const NODES_MAX: usize = 3;
/// Most jobs and other users of a node's GPUs that are named.
const USES_MAX: usize = 4;

/// A sentence for each of the best nodes, and one for all others:
/// `lab1 has 2 of 8 GPUs free: your job 2 uses GPUs 0–5 until 18:07.`
pub fn sentences(why: &Why, view: &View<'_>) -> String {
    let mut nodes: Vec<&WhyNode> = why.nodes.iter().filter(|node| node.n_matching > 0).collect();
    nodes.sort_by_key(|node| (Reverse(node.connected), Reverse(node.n_free)));
    let rest = nodes.split_off(nodes.len().min(NODES_MAX));
    let mut sentences: Vec<String> = nodes.iter().map(|node| sentence(node, why, view)).collect();
    if !rest.is_empty() {
        let total = |of: fn(&WhyNode) -> u32| rest.iter().map(|node| u64::from(of(node))).sum();
        let free: u64 = total(|node| if node.connected { node.n_free } else { 0 });
        let all = count(total(|node| node.n_matching), "GPU");
        let nodes = count(rest.len() as u64, "other node");
        sentences.push(format!("On {nodes}, {free} of {all} are free."));
    }
    sentences.join(" ")
}

fn sentence(node: &WhyNode, why: &Why, view: &View<'_>) -> String {
    let name = &node.name;
    if !node.connected {
        return format!("The agent of {name} does not answer.");
    }
    let all = match node.n_matching as usize == node.devices.len() {
        true => count(u64::from(node.n_matching), "GPU"),
        false => count(u64::from(node.n_matching), "matching GPU"),
    };
    let uses = uses(node, why, view);
    let uses = if uses.is_empty() { uses } else { format!(": {uses}") };
    format!("{name} has {} of {all} free{uses}.", node.n_free)
}

/// What uses each device, neighbours together:
/// `your job 2 uses GPUs 0–5 until 18:07; GPU 6 is unhealthy`.
fn uses(node: &WhyNode, why: &Why, view: &View<'_>) -> String {
    let mut groups: Vec<(Use, Vec<u32>)> = Vec::new();
    for device in node.devices.iter().filter(|device| device.matches) {
        let reasons = why.reasons.iter();
        let mut reasons = reasons.filter(|it| {
            it.facts.get("node").is_some_and(|name| *name == node.name)
                && it.facts.get("gpu").is_some_and(|gpu| *gpu == device.index)
        });
        let Some(what) = use_of(device, reasons.next(), view) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == what) {
            Some((_, of)) => of.push(device.index),
            None => groups.push((what, vec![device.index])),
        }
    }
    let rest = groups.split_off(groups.len().min(USES_MAX));
    let mut texts: Vec<String> = groups.iter().map(|(what, of)| what.text(of)).collect();
    for kind in [UseKind::Own, UseKind::Others, UseKind::Outside, UseKind::State] {
        let of_kind = rest.iter().filter(|(what, _)| what.kind() == kind);
        let mut of: Vec<u32> = of_kind.flat_map(|(_, of)| of.clone()).collect();
        of.sort_unstable();
        if !of.is_empty() {
            texts.push(kind.text(&of));
        }
    }
    texts.join("; ")
}

/// Why devices are not free.
#[derive(PartialEq)]
enum Use {
    /// A user of them, and until when.
    By { kind: UseKind, user: String, until: String },
    /// Their state, for one and for several.
    State { one: String, several: String },
}

/// Uses of one kind, for a sum of those that are not named.
#[derive(Clone, Copy, PartialEq)]
enum UseKind {
    /// Jobs of the reader.
    Own,
    /// Jobs of other users.
    Others,
    /// Processes outside gpool.
    Outside,
    /// Faults, drains and reservations.
    State,
}

impl UseKind {
    fn text(self, of: &[u32]) -> String {
        let be = if of.len() == 1 { "is" } else { "are" };
        let gpus = gpus(of);
        match self {
            Self::Own => format!("your jobs use {gpus}"),
            Self::Others => format!("jobs of other users use {gpus}"),
            Self::Outside => format!("processes outside gpool use {gpus}"),
            Self::State => format!("{gpus} {be} not available"),
        }
    }
}

impl Use {
    fn kind(&self) -> UseKind {
        match self {
            Self::By { kind, .. } => *kind,
            Self::State { .. } => UseKind::State,
        }
    }

    fn text(&self, of: &[u32]) -> String {
        let gpus = gpus(of);
        match self {
            Self::By { user, until, .. } => format!("{user} uses {gpus}{until}"),
            Self::State { one, .. } if of.len() == 1 => format!("{gpus} {one}"),
            Self::State { several, .. } => format!("{gpus} {several}"),
        }
    }
}

fn gpus(of: &[u32]) -> String {
    format!("{} {}", if of.len() == 1 { "GPU" } else { "GPUs" }, indexes(of))
}

/// What uses a device; `reason` has the details of a fault or of a process outside gpool.
fn use_of(device: &WhyDevice, reason: Option<&Reason>, view: &View<'_>) -> Option<Use> {
    let fact = |name: &str| reason.and_then(|it| it.facts.get(name)).filter(|it| !it.is_null());
    let text = |name: &str| fact(name).and_then(|value| value.as_str());
    let be =
        |words: &str| Use::State { one: format!("is {words}"), several: format!("are {words}") };
    match (device.state, &device.job, &device.reserved) {
        (DeviceState::Busy | DeviceState::HeldIdle, Some(job), _) => {
            let user = match &device.user {
                Some(user) if user == view.me => format!("your job {job}"),
                Some(user) => format!("job {job} ({user})"),
                None => format!("job {job}"),
            };
            let is_own = device.user.as_deref() == Some(view.me);
            let kind = if is_own { UseKind::Own } else { UseKind::Others };
            Some(Use::By { kind, user, until: until(device, view) })
        }
        (DeviceState::Unmanaged, ..) => {
            let process = match &device.user {
                Some(user) if user == view.me => "your process".to_owned(),
                Some(user) => format!("a process of {user}"),
                None => "a process".to_owned(),
            };
            let name = text("name").map(|name| format!("{name}, ")).unwrap_or_default();
            let details = fact("pid").map(|pid| format!(" ({name}pid {pid})"));
            let user = format!("{process} outside gpool{}", details.unwrap_or_default());
            Some(Use::By { kind: UseKind::Outside, user, until: String::new() })
        }
        (DeviceState::Free, _, Some(reserved)) => Some(reserved_words(reserved, view)),
        (DeviceState::Free, _, None) => None,
        (state, ..) => {
            let why = text("why").map(|why| format!(" ({why})")).unwrap_or_default();
            Some(be(&format!("{}{why}", device_state(state))))
        }
    }
}

fn until(device: &WhyDevice, view: &View<'_>) -> String {
    let at = device.until.map(|at| view.clock.short(at, view.now));
    match (at, device.until_by.as_deref()) {
        (Some(at), Some("limit" | "stopping")) => format!(" until {at}"),
        (Some(at), Some("predicted")) => format!(" until about {at}"),
        // Other sources are too uncertain to show a time.
        _ => String::new(),
    }
}

/// Why the job can't use free devices: `are reserved until 18:00 (night)`.
fn reserved_words(by: &WhyReserved, view: &View<'_>) -> Use {
    let Some(name) = &by.by else {
        let [one, several] = ["is", "are"].map(|be| format!("{be} not reserved for it"));
        return Use::State { one, several };
    };
    let from = by.from.filter(|from| *from > view.now);
    let from = from.map(|at| format!(" from {}", view.clock.short(at, view.now)));
    let until = match by.until {
        Some(at) => format!(" until {}", view.clock.short(at, view.now)),
        None => String::new(),
    };
    let when = format!("{}{until} ({name})", from.unwrap_or_default());
    let [one, several] = match by.maintenance {
        true => ["has", "have"].map(|have| format!("{have} maintenance{when}")),
        false => ["is", "are"].map(|be| format!("{be} reserved{when}")),
    };
    Use::State { one, several }
}
