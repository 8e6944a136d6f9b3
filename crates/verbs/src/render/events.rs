//! Events as lines: `gpool events`.

use std::collections::BTreeMap;

use gpool_cli::render::safe::safe;
use gpool_cli::render::view::View;
use gpool_cli::render::words::{indexes, state};
use gpool_model::DeviceState;
use gpool_wire::{Event, EventKind, Gpu};

use super::gpus::device_state;

/// One event as a line; `None` for an unknown kind.
#[must_use]
pub fn line(event: &Event, view: &View<'_>) -> Option<String> {
    let what = match &event.kind {
        EventKind::JobState { job, state: now, exit_code } => {
            let exit = exit_code.map(|code| format!(" (exit {code})")).unwrap_or_default();
            format!("job {job} {}{exit}", state(now.as_str()))
        }
        EventKind::JobIdle { job, since: Some(since) } => {
            let since = view.clock.second(*since, event.time);
            format!("job {job} is idle: no GPU use since {since}")
        }
        EventKind::JobIdle { job, since: None } => format!("job {job} uses its GPUs again"),
        EventKind::JobMoved { job, node, from, to } => {
            let [from, to] = [from, to].map(|gpus| indexes(gpus));
            format!("job {job} moved from {node}:{from} to {node}:{to}")
        }
        EventKind::ReservationChanged { reservation } => {
            format!("reservation {reservation} changed")
        }
        EventKind::ProjectChanged { project } => format!("project {project} changed"),
        EventKind::NodeChanged { node } => format!("node {node} changed"),
        EventKind::NodeMembership { node, membership } => format!("node {node} {membership}"),
        EventKind::Notified { job, to, given_up: None } => {
            format!("notification of job {job} sent to {to}")
        }
        EventKind::Notified { job, to, given_up: Some(why) } => {
            format!("notification of job {job} to {to} failed: {why}")
        }
        EventKind::PayerNotified { payer, to, given_up: None } => {
            format!("notification of {payer} sent to {to}")
        }
        EventKind::PayerNotified { payer, to, given_up: Some(why) } => {
            format!("notification of {payer} to {to} failed: {why}")
        }
        EventKind::Resync => "some events were missed".to_owned(),
        EventKind::Other => return None,
    };
    Some(at(event, &what, view))
}

/// A line with the event's time and a change of a GPU.
#[must_use]
pub fn at(event: &Event, what: &str, view: &View<'_>) -> String {
    format!("{}  {}", view.clock.second(event.time, view.now), safe(what))
}

/// The last reported trouble of each GPU, by node and index. Events of jobs already report when a
/// job begins or ends on a GPU.
#[derive(Debug, Default)]
pub struct GpuTroubles(BTreeMap<(String, u32), String>);

impl GpuTroubles {
    /// The changes since the last call, one line each.
    pub fn news(&mut self, gpus: &[Gpu]) -> Vec<String> {
        let mut news = Vec::new();
        for gpu in gpus {
            let now = trouble(gpu);
            let before = self.0.insert((gpu.node.clone(), gpu.index), now.clone());
            if before.unwrap_or_default() != now {
                let now = if now.is_empty() { "works again" } else { &now };
                news.push(format!("GPU {} of {}: {now}", gpu.index, gpu.node));
            }
        }
        news
    }
}

/// Why jobs can't use a device, or which other process uses it; empty if there is no trouble.
fn trouble(gpu: &Gpu) -> String {
    if let Some(why) = &gpu.health_why {
        return format!("{}, {why}", device_state(gpu.state));
    }
    let process = |process: &gpool_wire::GpuProcess| {
        let name = process.name.as_deref().unwrap_or("a process");
        let user = process.user.as_ref().map(|user| format!(" of {user}")).unwrap_or_default();
        format!("{name}{user} (pid {})", process.pid)
    };
    if let Some(it) = gpu.unmanaged.first() {
        return format!("used outside gpool by {}", process(it));
    }
    if let Some(it) = gpu.strays.first() {
        return format!("used by {}, whose job has no allocation on it", process(it));
    }
    if let Some(share) = gpu.shares.iter().find(|share| share.memory_over.is_some()) {
        let limit = gpool_model::Bytes::new(share.memory_limit);
        return format!("job {} uses more of its memory than its limit of {limit}", share.job);
    }
    match gpu.state {
        DeviceState::Drained | DeviceState::NotAllowed => device_state(gpu.state).to_owned(),
        DeviceState::Busy | DeviceState::HeldIdle if !gpu.allowed => {
            "not allowed for new jobs".to_owned()
        }
        _ => String::new(),
    }
}
