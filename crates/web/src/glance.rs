//! The first answers of the Overview: next start, longest wait, idle GPUs, faults.

use gpool_model::JobKind;
use gpool_model::device::DeviceState;
use gpool_wire::{Gpu, Job, Status, Time};

use crate::jobs::{soon, surely};
use crate::text::{span, state, until};

/// More places than this are not named.
const NAMED_MAX: usize = 3;

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub title: &'static str,
    /// The style of its mark: `free` if all is well.
    pub style: &'static str,
    /// The answer in a few words.
    pub short: String,
    /// The job that it is about, and its name.
    pub job: Option<String>,
    pub name: String,
    pub more: String,
}

/// The four answers.
pub fn answers(
    gpus: &[Gpu],
    waiting: &[Job],
    n_waiting: u64,
    status: &Status,
    now: Time,
) -> [Answer; 4] {
    [
        next_start(waiting, now),
        longest_wait(waiting, n_waiting, now),
        waste(gpus, now),
        faults(gpus, status),
    ]
}

fn name(job: &Job) -> String {
    let name: String = job.name.chars().take(24).collect();
    format!("{} {name}", job.id)
}

fn n_gpus(n: usize) -> String {
    format!("{n} GPU{}", if n == 1 { "" } else { "s" })
}

fn next_start(waiting: &[Job], now: Time) -> Answer {
    let starts = waiting.iter().filter_map(|job| Some((job.eta.as_ref()?.p50?, job)));
    let next = starts.min_by_key(|(at, job)| (at.0, job.id.clone()));
    let title = "Next start";
    let Some((at, job)) = next else {
        let short = match waiting.is_empty() {
            true => "nothing waits",
            false => "not known yet",
        };
        return Answer { title, style: "soft", short: short.to_owned(), ..Answer::default() };
    };
    let noun = if job.gpus == "1" { "GPU" } else { "GPUs" };
    let surely = surely(job, at, now).map(|it| format!(". {it}")).unwrap_or_default();
    let more = format!("of {}, {} {noun}{surely}", job.user, job.gpus);
    let short = soon(at, now);
    Answer { title, style: "busy", short, job: Some(job.id.clone()), name: name(job), more }
}

/// Held jobs wait for a user, not for GPUs, and arrays at their own limit for their elements.
fn longest_wait(waiting: &[Job], n_waiting: u64, now: Time) -> Answer {
    let title = "Longest wait";
    let is_at_limit = |job: &&Job| job.reasons.iter().any(|it| it.code == "group_parallel_limit");
    let waits = waiting.iter().filter(|job| job.held_by.is_none() && job.begin.is_none());
    let waits = waits.filter(|job| !is_at_limit(job));
    let first = waits.min_by_key(|job| (job.submitted_at.0, job.id.clone()));
    let Some(job) = first else {
        let short = match n_waiting {
            0 => "no job waits".to_owned(),
            n => format!("{n} held, later or at their limit"),
        };
        return Answer { title, style: "free", short, ..Answer::default() };
    };
    let reason = job.reasons.iter().find(|it| it.blocking).or_else(|| job.reasons.first());
    let reason = reason.map(|it| format!(". {}", it.text)).unwrap_or_default();
    Answer {
        title,
        style: "soft",
        short: span(until(now, job.submitted_at)),
        job: Some(job.id.clone()),
        name: name(job),
        more: format!("of {}{reason}", job.user),
    }
}

fn waste(gpus: &[Gpu], now: Time) -> Answer {
    let title = "Held idle";
    let idle = gpus.iter().filter(|gpu| gpu.state == DeviceState::HeldIdle);
    let n = idle.clone().count();
    let since = idle.filter_map(|gpu| {
        let first = gpu.idle.iter().min_by_key(|idle| (idle.since.0, idle.job.clone()))?;
        Some((first, gpu))
    });
    match (n, since.min_by_key(|(idle, _)| (idle.since.0, idle.job.clone()))) {
        (0, _) => {
            let usual = span(JobKind::IDLE_AFTER.get() / 1000);
            let more = format!("Idle: not used for {usual}, or the job's --idle-after.");
            Answer { title, style: "free", short: "no GPU".to_owned(), more, ..Answer::default() }
        }
        (n, longest) => Answer {
            title,
            style: "idle",
            short: n_gpus(n),
            job: longest.map(|(idle, _)| idle.job.clone()),
            name: longest.map(|(idle, _)| format!("job {}", idle.job)).unwrap_or_default(),
            more: longest.map_or_else(String::new, |(idle, gpu)| {
                let user = gpu.user.as_deref().map(|it| format!("of {it} ")).unwrap_or_default();
                format!("{user}for {}", span(until(now, idle.since)))
            }),
        },
    }
}

/// What does not work.
fn faults(gpus: &[Gpu], status: &Status) -> Answer {
    let mut all = Vec::new();
    let away = status.nodes.saturating_sub(status.nodes_connected);
    if away > 0 {
        all.push(format!("{away} of {} nodes not connected", status.nodes));
    }
    let broken = gpus.iter().filter(|gpu| {
        matches!(gpu.state, DeviceState::Unhealthy | DeviceState::Lost | DeviceState::Unknown)
    });
    let described = broken.map(|gpu| {
        let why = gpu.health_why.as_deref().unwrap_or_else(|| state(gpu.state));
        format!("{}:{} {why}", gpu.node, gpu.index)
    });
    all.extend(described);
    all.extend(status.usage_fault.clone());
    let (style, short) = match all.len() {
        0 => ("free", "no GPU, no node".to_owned()),
        1 => ("out", "1 fault".to_owned()),
        n => ("out", format!("{n} faults")),
    };
    let n_more = all.len().saturating_sub(NAMED_MAX);
    all.truncate(NAMED_MAX);
    let more = if n_more > 0 { format!("; {n_more} more") } else { String::new() };
    Answer { title: "Broken", style, short, more: all.join("; ") + &more, ..Answer::default() }
}
