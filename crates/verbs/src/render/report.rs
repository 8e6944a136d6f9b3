//! A page that compares a job's usage with its request: `gpool report`.

use gpool_cli::render::clock::span;
use gpool_cli::render::page::Page;
use gpool_cli::render::view::View;
use gpool_cli::render::words::{self, requested_gpu_hours};
use gpool_model::{Bytes, Millis};
use gpool_wire::cost::Cost;
use gpool_wire::gpu::xid::JobXid;
use gpool_wire::job_metrics;
use gpool_wire::live_usage::io;
use gpool_wire::{Job, NodeUse, Report};

use super::hours::figure;

#[must_use]
pub fn page(report: &Report, view: &View<'_>) -> String {
    let job = &report.job;
    let state = words::state(job.state.as_str());
    let end = if job.state.is_end() { format!(", {}", words::end(job)) } else { String::new() };
    let ran = match (report.ran_s, words::limit(job)) {
        (Some(ran), Some(limit)) => format!("ran {} of {limit}", span(ran)),
        (Some(ran), None) => format!("ran {}, without a limit", span(ran)),
        (None, _) => "never ran".to_owned(),
    };
    let mut page = Page::new(&format!(
        "{} {} ({}, {}) · {state}{end} · waited {} · {ran}",
        job.id,
        job.name,
        view.user(&job.user),
        job.project,
        span(report.waited_s),
    ));
    used(&mut page, report);
    if let (Some(part), Some(limit)) = (report.time_share, words::limit(job)) {
        page.label("time", &format!("{} of its limit of {limit}", percent(part)));
    }
    errors(&mut page, job);
    metrics(&mut page, job);
    let hints: Vec<String> = report
        .hints
        .iter()
        .map(|hint| match &hint.flags {
            Some(flags) => format!("{}: {flags} would be enough", hint.text),
            None => hint.text.clone(),
        })
        .collect();
    page.labels("hints", &hints);
    page.text()
}

/// Adds the GPUs, CPU time and memory of a job, each beside the requested amount.
pub fn used(page: &mut Page, report: &Report) {
    page.label_if("GPUs", gpus(report).as_deref());
    page.label_if("GPU use", gpu_use(report).as_deref());
    let nodes = NodeUse::texts(&report.nodes).into_iter();
    let nodes: Vec<String> = nodes.map(|(node, used)| format!("{node} {used}")).collect();
    page.labels("on nodes", &nodes);
    let cost: Vec<String> = report.job.usage.cost.iter().map(Cost::text).collect();
    page.labels("cost", &cost);
    page.label_if("CPU", cpu(report).as_deref());
    page.label_if("memory", memory(report).as_deref());
    page.label_if("disk", io(report.read_bytes, report.written_bytes).as_deref());
}

/// Adds the errors of the GPUs of a job.
pub fn errors(page: &mut Page, job: &Job) {
    let all: Vec<String> = job.run.xids.iter().map(JobXid::text).collect();
    page.labels("GPU errors", &all);
}

/// Adds the last values of the metrics that a job reports.
pub fn metrics(page: &mut Page, job: &Job) {
    let one = |(name, value): (&String, &f64)| format!("{name} {}", job_metrics::figure(*value));
    let all: Vec<String> = job.usage.metrics.iter().map(one).collect();
    page.label_if("metrics", Some(all.join(", ")).as_deref().filter(|it| !it.is_empty()));
}

/// The GPUs of a job and for how long.
fn gpus(report: &Report) -> Option<String> {
    let job = &report.job;
    if report.n_gpus == 0 {
        return None;
    }
    let gpus = words::count(u64::from(report.n_gpus), "GPU");
    let place = match &job.array {
        Some(_) => "all runs of its elements".to_owned(),
        None => words::places(&job.placement),
    };
    let asked = requested_gpu_hours(report).map(|hours| {
        format!(" of {} asked for ({})", figure(hours), percent(report.gpu_hours / hours))
    });
    let had = figure(report.gpu_hours);
    Some(format!("{gpus} ({place}) · {had} GPU-hours{}", asked.unwrap_or_default()))
}

/// The measured use of the GPUs.
fn gpu_use(report: &Report) -> Option<String> {
    let limit = report.job.usage.total.and_then(|usage| usage.gpu_memory_limit);
    let memory = report.gpu_memory_peak.zip(limit).map(|(peak, limit)| {
        format!("at most {} of {} of memory", Bytes::new(peak), Bytes::new(limit))
    });
    let busy = report.gpu_utilization.map(|busy| format!("busy {} of the time", percent(busy)));
    let parts: Vec<String> = memory.into_iter().chain(busy).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn cpu(report: &Report) -> Option<String> {
    let used = report.cpu_s?;
    let busy = report.cores_used.map(|cores| format!(", {cores:.1} cores busy on average"));
    let asked = match (report.job.request.cpu_cores(), report.cpu_share) {
        (Some(cpus), Some(part)) => {
            format!(" ({} of {} asked for)", percent(part), words::cores(cpus))
        }
        (Some(cpus), None) => format!(" ({} asked for)", words::cores(cpus)),
        (None, _) => " (none asked for)".to_owned(),
    };
    Some(format!("{} of CPU time{}{asked}", span(used), busy.unwrap_or_default()))
}

/// The CPU time of a running job, with its average cores.
#[must_use]
pub fn cores(cpu_s: f64, ran: Millis) -> String {
    let ran_s = gpool_wire::time::seconds(ran);
    let busy = if ran_s > 0.0 { cpu_s / ran_s } else { 0.0 };
    format!("{} of CPU time, {busy:.1} cores busy on average", span(cpu_s))
}

fn memory(report: &Report) -> Option<String> {
    let peak = Bytes::new(report.memory_peak?);
    let of_one = match (report.job.request.mem_bytes(), report.memory_share) {
        (Some(asked), Some(part)) => {
            format!("at most {peak} in one process ({} of {})", percent(part), Bytes::new(asked))
        }
        _ => format!("at most {peak} in one process (none requested)"),
    };
    let together = report
        .memory_peak_together
        .map(|peak| format!(", {} in all processes with cached files", Bytes::new(peak)));
    Some(of_one + &together.unwrap_or_default())
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}
