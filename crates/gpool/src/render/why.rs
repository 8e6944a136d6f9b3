//! Why a job waits, as a page: `gpool why`.

use gpool_model::device::DeviceState;
use gpool_model::job::JobState;
use gpool_wire::{Reason, Why, WhyDevice, WhyNode};
use unicode_width::UnicodeWidthStr as _;

use super::clock::span;
use super::page::Page;
use super::safe::safe;
use super::view::View;
use super::words::{self, indexes};

/// Where marks stand at the least.
const COLUMN: usize = 66;

/// The whole answer.
#[must_use]
pub fn page(why: &Why, view: &View<'_>) -> String {
    let job = &why.job;
    let headline = format!(
        "Job {} \"{}\" ({}, project {}) wants {}.",
        job.id,
        job.name,
        view.user(&job.user),
        job.project,
        words::wants(job)
    );
    let mut page = Page::new(&headline);
    let now = view.clock.short(why.as_of, why.as_of);
    let waits = matches!(job.state, JobState::Held | JobState::Waiting | JobState::Pending);
    if !waits {
        let word = words::state(job.state.as_str());
        let is = match job.state.is_end() {
            true => format!("it has ended: {word}, {}", words::end(job)),
            false => format!("it is in state {word}"),
        };
        page.line(&format!("Now {now}. It waits for nothing: {is}."));
        if !job.placement.is_empty() {
            page.line(&format!("Where: {}.", words::places(&job.placement)));
        }
        return page.text();
    }
    let word = words::state(job.state.as_str());
    page.line(&format!("Now {now}. It is {word} and has waited {}.", span(job.waited_s)));
    page.line("");
    if why.reasons.is_empty() {
        page.line("Nothing keeps it: it starts with the next decision.");
    } else {
        page.line("Not started because");
    }
    for line in reason_lines(&why.reasons) {
        page.line(&line);
    }
    for (n, node) in why.nodes.iter().enumerate() {
        let label = if n == 0 { "Nodes" } else { "" };
        page.line(&format!("{label:<11} {}", node_line(node)));
        let devices = device_line(&node.devices);
        if !devices.is_empty() {
            page.line(&format!("{:<13} {devices}", ""));
        }
    }
    page.text()
}

/// Numbered, with a mark behind those that block alone; the marks stand in one column.
fn reason_lines(reasons: &[Reason]) -> Vec<String> {
    let texts: Vec<_> = reasons.iter().map(|reason| safe(&reason.text)).collect();
    let marked = texts.iter().zip(reasons).filter(|(_, reason)| reason.blocking);
    let column = marked.map(|(text, _)| text.width()).max().unwrap_or(0).max(COLUMN);
    let mut lines = Vec::with_capacity(reasons.len());
    for (n, (text, reason)) in texts.iter().zip(reasons).enumerate() {
        let mut line = format!("  {}. {text}", n + 1);
        if reason.blocking {
            let gap = column - text.width();
            line.push_str(&format!("{:gap$} [blocks]", ""));
        }
        lines.push(line);
    }
    lines
}

fn node_line(node: &WhyNode) -> String {
    if !node.connected {
        return format!("{}: its agent does not answer", node.name);
    }
    if node.devices.is_empty() {
        return format!("{}: no GPUs", node.name);
    }
    format!(
        "{}: {} of {} usable now, {} of the kind asked for",
        node.name,
        node.n_free,
        node.devices.len(),
        node.n_matching
    )
}

/// What stands in the way on each device, neighbours together: `0,1 job 1839 · 3 unmanaged (eve)`.
fn device_line(devices: &[WhyDevice]) -> String {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for device in devices {
        let what = device_words(device);
        match groups.iter_mut().find(|(words, _)| *words == what) {
            Some((_, of)) => of.push(device.index),
            None => groups.push((what, vec![device.index])),
        }
    }
    let group = |(what, of): &(String, Vec<u32>)| format!("{} {what}", indexes(of));
    groups.iter().map(group).collect::<Vec<_>>().join(" · ")
}

fn device_words(device: &WhyDevice) -> String {
    let user = device.user.as_deref().map(|user| format!(" ({user})")).unwrap_or_default();
    match (device.state, &device.job) {
        (DeviceState::Busy | DeviceState::HeldIdle, Some(job)) => format!("job {job}{user}"),
        (DeviceState::Unmanaged, _) => format!("unmanaged{user}"),
        (DeviceState::Free, _) if !device.matches => format!("free, but {}", device.model),
        (state, _) => device_state(state).to_owned(),
    }
}

/// A device's state for people.
#[must_use]
pub fn device_state(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Free => "free",
        DeviceState::Busy => "busy",
        DeviceState::HeldIdle => "held idle",
        DeviceState::Unmanaged => "unmanaged",
        DeviceState::Drained => "drained",
        DeviceState::Unhealthy => "unhealthy",
        DeviceState::Lost => "lost",
        DeviceState::Unknown => "unknown",
    }
}
