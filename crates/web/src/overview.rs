//! The Overview: free GPUs, idle GPUs, waiting jobs.

use askama::Template;
use gpool_model::device::DeviceState;
use gpool_wire::usage::GpuHistory;
use gpool_wire::{Gpu, Job, Status, Time};

use crate::chart::Chart;
use crate::heat::Heat;
use crate::text::{gib, percent, places, span, state, style, until};
use crate::written;

/// The contents of the Overview.
#[derive(Debug, Clone, Copy)]
pub struct Overview<'a> {
    /// The signed-in user.
    pub user: &'a str,
    /// The status of the server.
    pub status: &'a Status,
    /// All devices, by node and index.
    pub gpus: &'a [Gpu],
    /// The jobs that have not ended, waiting ones in the order of the queue.
    pub jobs: &'a [Job],
    /// The number of jobs that have not ended; not all may be in `jobs`.
    pub n_jobs: u64,
    /// The utilization of the devices in the shown range.
    pub history: &'a GpuHistory,
    /// The shown range, one of [`RANGES`].
    pub range: &'a str,
    /// The time of the answers.
    pub now: Time,
}

/// The ranges of the heat map, with their hours.
pub const RANGES: [(&str, u32); 4] = [("1h", 1), ("24h", 24), ("7d", 168), ("30d", 720)];

/// The number of devices by state, for the tiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub free: u64,
    pub busy: u64,
    pub idle: u64,
    pub unmanaged: u64,
    pub out: u64,
}

impl Counts {
    pub fn of(gpus: &[Gpu]) -> Self {
        let n = |name: &str| gpus.iter().filter(|gpu| style(gpu.state) == name).count() as u64;
        let [free, busy, idle] = ["free", "busy", "idle"].map(n);
        Self { free, busy, idle, unmanaged: n("unmanaged"), out: n("out") }
    }
}

struct Device {
    name: String,
    model: String,
    style: &'static str,
    state: String,
    utilization: Option<u32>,
    memory: String,
    jobs: Vec<(String, String)>,
}

struct Waiting {
    id: String,
    name: String,
    user: String,
    gpus: String,
    start: String,
    start_at: String,
    reason: String,
}

struct Running {
    id: String,
    name: String,
    user: String,
    gpus: String,
    places: String,
    since: String,
    since_at: String,
    is_idle: bool,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Page<'a> {
    user: &'a str,
    counts: Counts,
    n_waiting: usize,
    n_running: usize,
    n_hidden: u64,
    fault: &'a str,
    chart: Chart,
    heat: Heat,
    ranges: [(&'static str, bool); RANGES.len()],
    devices: Vec<Device>,
    waiting: Vec<Waiting>,
    running: Vec<Running>,
    now: String,
}

impl Overview<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let is_waiting = |job: &&Job| job.started_at.is_none() && job.placement.is_empty();
        let (waiting, running): (Vec<&Job>, Vec<&Job>) = self.jobs.iter().partition(is_waiting);
        let waiting: Vec<Job> = waiting.into_iter().cloned().collect();
        let n_shown = self.jobs.len() as u64;
        let page = Page {
            user: self.user,
            counts: Counts::of(self.gpus),
            n_waiting: waiting.len(),
            n_running: running.len(),
            n_hidden: self.n_jobs.saturating_sub(n_shown),
            fault: self.status.store_fault.as_deref().unwrap_or_default(),
            chart: Chart::new(&waiting, self.now),
            heat: Heat::new(self.history),
            ranges: RANGES.map(|(range, _)| (range, range == self.range)),
            devices: self.gpus.iter().map(|gpu| device(gpu, self.now)).collect(),
            waiting: waiting.iter().map(|job| wait(job, self.now)).collect(),
            running: running.into_iter().map(|job| run(job, self.now)).collect(),
            now: self.now.to_string(),
        };
        written(&page)
    }
}

fn device(gpu: &Gpu, now: Time) -> Device {
    let mut jobs: Vec<(String, String)> =
        gpu.shares.iter().map(|share| (share.job.clone(), share.user.clone())).collect();
    if jobs.is_empty()
        && let Some(job) = &gpu.job
    {
        jobs.push((job.clone(), gpu.user.clone().unwrap_or_default()));
    }
    let idle = gpu.idle.iter().map(|idle| until(now, idle.since)).max();
    let state = match idle.filter(|_| gpu.state == DeviceState::HeldIdle) {
        Some(seconds) => format!("held idle for {}", span(seconds)),
        None => state(gpu.state).to_owned(),
    };
    let memory = match gpu.memory_used {
        Some(used) => format!("{} of {}", gib(used), gib(gpu.memory_total)),
        None => gib(gpu.memory_total),
    };
    Device {
        name: format!("{}:{}", gpu.node, gpu.index),
        model: gpu.model_short.clone(),
        style: style(gpu.state),
        state,
        utilization: gpu.utilization.map(percent),
        memory,
        jobs,
    }
}

fn wait(job: &Job, now: Time) -> Waiting {
    let start = job.eta.as_ref().and_then(|eta| eta.p50);
    let reason = job.reasons.iter().find(|it| it.blocking).or_else(|| job.reasons.first());
    Waiting {
        id: job.id.clone(),
        name: job.name.clone(),
        user: job.user.clone(),
        gpus: job.gpus.clone(),
        start: match start {
            Some(at) if until(at, now) > 0 => format!("in {}", span(until(at, now))),
            Some(_) => "now".to_owned(),
            None => "not known".to_owned(),
        },
        start_at: start.map(|at| at.to_string()).unwrap_or_default(),
        reason: reason.map_or_else(|| job.state.as_str().to_owned(), |it| it.text.clone()),
    }
}

fn run(job: &Job, now: Time) -> Running {
    Running {
        id: job.id.clone(),
        name: job.name.clone(),
        user: job.user.clone(),
        gpus: job.gpus.clone(),
        places: places(&job.placement),
        since: match job.started_at {
            Some(at) => format!("{} for {}", job.state.as_str(), span(until(now, at))),
            None => job.state.as_str().to_owned(),
        },
        since_at: job.started_at.map(|at| at.to_string()).unwrap_or_default(),
        is_idle: job.idle_since.is_some(),
    }
}
