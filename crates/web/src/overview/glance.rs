//! The first answers of the Overview: free GPUs, the user's jobs, next start, longest wait, waste,
//! cost, failures, faults, reservations.

use std::collections::BTreeMap;

use gpool_model::JobKind;
use gpool_model::device::DeviceState;
use gpool_model::job::JobState;
use gpool_wire::cost::CostRow;
use gpool_wire::{Gpu, Job, Time};

use crate::cost::totals;
use crate::jobs::{soon, surely};
use crate::nodes::is_reserved;
use crate::overview::Overview;
use crate::text::{ago, figure, percent, span, state, until};

/// More places than this are not named.
const NAMED_MAX: usize = 3;
/// Reservations that begin later are not soon.
const SOON_S: u64 = 7 * 86_400;
/// Less idle GPU time than this is not worth a name, in hours.
const IDLE_MIN: f64 = 0.01;

#[derive(Debug, Clone, Default)]
pub struct GlanceAnswer {
    pub title: &'static str,
    /// The style of its mark: `free` if all is well.
    pub style: &'static str,
    /// The answer in a few words.
    pub short: String,
    /// The page that it is about, and its name.
    pub href: String,
    pub name: String,
    pub more: String,
}

impl GlanceAnswer {
    fn new(title: &'static str, style: &'static str, short: impl Into<String>) -> Self {
        Self { title, style, short: short.into(), ..Self::default() }
    }

    fn about(self, href: impl Into<String>, name: impl Into<String>) -> Self {
        Self { href: href.into(), name: name.into(), ..self }
    }

    fn and(self, more: impl Into<String>) -> Self {
        Self { more: more.into(), ..self }
    }

    fn of_job(self, job: &Job) -> Self {
        self.about(format!("/jobs/{}", job.id), name(job))
    }
}

pub fn answers(overview: &Overview<'_>, n_waiting: u64) -> Vec<GlanceAnswer> {
    let Overview { gpus, waiting, now, .. } = *overview;
    vec![
        free(gpus),
        own(overview.own, now),
        next_start(waiting, now),
        longest_wait(waiting, n_waiting, now),
        waste(gpus, now),
        most_idle(overview),
        cost(overview),
        failed(overview.failed, now),
        faults(overview),
        reserved(overview),
    ]
}

fn name(job: &Job) -> String {
    let name: String = job.name.chars().take(24).collect();
    format!("{} {name}", job.id)
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// The first texts, and the number of the others.
fn named(mut all: Vec<String>) -> String {
    let n_more = all.len().saturating_sub(NAMED_MAX);
    all.truncate(NAMED_MAX);
    let more = if n_more > 0 { format!("; {n_more} more") } else { String::new() };
    all.join("; ") + &more
}

fn free(gpus: &[Gpu]) -> GlanceAnswer {
    let mut places = BTreeMap::<(&str, &str), usize>::new();
    let is_free = |gpu: &&Gpu| gpu.state == DeviceState::Free && !is_reserved(gpu);
    for gpu in gpus.iter().filter(is_free) {
        *places.entry((&gpu.model_short, &gpu.node)).or_default() += 1;
    }
    let n: usize = places.values().sum();
    let mut places: Vec<_> = places.into_iter().collect();
    // The largest places first: a job of several GPUs needs them together.
    places.sort_by_key(|(place, n)| (std::cmp::Reverse(*n), *place));
    let places = places.into_iter().map(|((model, node), n)| format!("{n} {model} on {node}"));
    let style = if n > 0 { "free" } else { "soft" };
    let short = if n > 0 { count(n, "GPU") } else { "no GPU".to_owned() };
    GlanceAnswer::new("Free", style, short).and(named(places.collect()))
}

fn own(own: &[Job], now: Time) -> GlanceAnswer {
    let title = "Your jobs";
    let is_waiting =
        |job: &&Job| matches!(job.state, JobState::Held | JobState::Waiting | JobState::Pending);
    let n_waiting = own.iter().filter(is_waiting).count();
    let starts = own.iter().filter(is_waiting);
    let starts = starts.filter_map(|job| Some((job.forecast.eta.as_ref()?.p50?, job)));
    let next = starts.min_by_key(|(at, job)| (at.0, job.id.clone()));
    if own.is_empty() {
        return GlanceAnswer::new(title, "soft", "none").about("/submit", "Submit a job");
    }
    let short = format!("{} running, {n_waiting} waiting", own.len() - n_waiting);
    let answer = GlanceAnswer::new(title, "busy", short);
    match next {
        Some((at, job)) => answer.of_job(job).and(format!("starts {}", soon(at, now))),
        None => answer,
    }
}

fn next_start(waiting: &[Job], now: Time) -> GlanceAnswer {
    let starts = waiting.iter().filter_map(|job| Some((job.forecast.eta.as_ref()?.p50?, job)));
    let next = starts.min_by_key(|(at, job)| (at.0, job.id.clone()));
    let title = "Next start";
    let Some((at, job)) = next else {
        let is_empty = waiting.is_empty();
        return GlanceAnswer::new(
            title,
            "soft",
            if is_empty { "nothing waits" } else { "not known yet" },
        );
    };
    let noun = if job.request.gpus_text() == "1" { "GPU" } else { "GPUs" };
    let surely = surely(job, at, now).map(|it| format!(". {it}")).unwrap_or_default();
    let more = format!("of {}, {} {noun}{surely}", job.user, job.request.gpus_words());
    GlanceAnswer::new(title, "wait", soon(at, now)).of_job(job).and(more)
}

/// Held jobs wait for a user, not for GPUs, and arrays at their own limit for their elements.
fn longest_wait(waiting: &[Job], n_waiting: u64, now: Time) -> GlanceAnswer {
    let title = "Longest wait";
    let is_at_limit =
        |job: &&Job| job.wait.reasons.iter().any(|it| it.code == "group_parallel_limit");
    let waits =
        waiting.iter().filter(|job| job.wait.held_by.is_none() && job.request.begin.is_none());
    let waits = waits.filter(|job| !is_at_limit(job));
    let first = waits.min_by_key(|job| (job.submitted_at.0, job.id.clone()));
    let Some(job) = first else {
        let short = match n_waiting {
            0 => "no job waits".to_owned(),
            n => format!("{n} held, later or at their limit"),
        };
        return GlanceAnswer::new(title, "free", short);
    };
    let reason =
        job.wait.reasons.iter().find(|it| it.blocking).or_else(|| job.wait.reasons.first());
    let reason = reason.map(|it| format!(". {}", it.text)).unwrap_or_default();
    let waited = span(until(now, job.submitted_at));
    GlanceAnswer::new(title, "wait", waited).of_job(job).and(format!("of {}{reason}", job.user))
}

fn waste(gpus: &[Gpu], now: Time) -> GlanceAnswer {
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
            GlanceAnswer::new(title, "free", "no GPU").and(more)
        }
        (n, None) => GlanceAnswer::new(title, "idle", count(n, "GPU")),
        (n, Some((idle, gpu))) => {
            let user = gpu.user.as_deref().map(|it| format!("of {it} ")).unwrap_or_default();
            GlanceAnswer::new(title, "idle", count(n, "GPU"))
                .about(format!("/jobs/{}", idle.job), format!("job {}", idle.job))
                .and(format!("{user}for {}", span(until(now, idle.since))))
        }
    }
}

/// The user with most idle GPU time.
fn most_idle(overview: &Overview<'_>) -> GlanceAnswer {
    let title = "Most idle in 7 days";
    let idle = overview.users.iter().filter(|row| !row.is_rest && !row.is_outside);
    let idle = idle.filter_map(|row| Some((row.idle_gpu_hours()?, row)));
    let idle = idle.filter(|(hours, _)| *hours >= IDLE_MIN);
    let Some((hours, row)) = idle.max_by(|(one, _), (other, _)| one.total_cmp(other)) else {
        return GlanceAnswer::new(title, "free", "no user");
    };
    let part = percent(hours / row.measured_gpu_hours.max(hours));
    let more = format!("{} idle GPU-hours, {part} % of the GPU time of this user", figure(hours));
    let user = row.user.clone().unwrap_or_default();
    GlanceAnswer::new(title, "idle", user).about("/usage?by=user&sort=-idle", "Usage").and(more)
}

fn cost(overview: &Overview<'_>) -> GlanceAnswer {
    let title = "Cost this month";
    let rows: Vec<&CostRow> = overview.cost.iter().collect();
    let priced = totals(&rows).into_iter().filter(|row| !row.cost.currency.is_empty());
    let priced: Vec<CostRow> = priced.collect();
    if priced.is_empty() {
        let short = if rows.is_empty() { "nothing yet" } else { "no prices" };
        return GlanceAnswer::new(title, "soft", short).about("/cost?range=month", "Cost");
    }
    let money = |row: &CostRow| format!("{:.2} {}", row.cost.cost, row.cost.currency);
    let sums: Vec<String> = priced.iter().map(money).collect();
    let idle = |row: &CostRow| {
        let idle = row.cost.idle_cost?;
        (row.cost.cost > 0.0).then(|| format!("{} % idle", percent(idle / row.cost.cost)))
    };
    let short = overview.budgets.iter().filter(|budget| budget.state != "ok");
    let budgets: Vec<String> = short
        .map(|it| {
            format!(
                "budget of {} {}",
                it.name,
                if it.state == "warn" { "nearly used up" } else { "used up" }
            )
        })
        .collect();
    let style = if budgets.is_empty() { "soft" } else { "idle" };
    let more: Vec<String> = priced.iter().filter_map(idle).take(1).chain(budgets).collect();
    GlanceAnswer::new(title, style, sums.join(" + "))
        .about("/cost?range=month", "Cost")
        .and(named(more))
}

fn failed(failed: &[Job], now: Time) -> GlanceAnswer {
    let title = "Failed in 24 h";
    let Some(last) = failed.first() else { return GlanceAnswer::new(title, "free", "no job") };
    let when = last.run.ended_at.map(|at| ago(at, now)).unwrap_or_default();
    let why = last.run.cause_text.clone();
    let why = why.or_else(|| last.run.exit_code.map(|code| format!("exit {code}")));
    let why = why.map(|it| format!(": {it}")).unwrap_or_default();
    let n = match failed.len() {
        n if n >= FAILED_MAX => format!("{n} jobs or more"),
        n => count(n, "job"),
    };
    GlanceAnswer::new(title, "out", n).of_job(last).and(format!("of {}, {when}{why}", last.user))
}

/// Failed jobs that are counted.
pub const FAILED_MAX: usize = 100;

/// What does not work, or gets no new jobs.
fn faults(overview: &Overview<'_>) -> GlanceAnswer {
    let Overview { gpus, status, nodes, .. } = overview;
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
    let n_faults = all.len();
    let drained = nodes.iter().filter_map(|node| Some((node, node.drain.as_ref()?)));
    let drained = drained.map(|(node, drain)| format!("{} drained: {}", node.name, drain.reason));
    all.extend(drained);
    let is_drained = |gpu: &&Gpu| gpu.drain.is_some();
    let is_closed = |gpu: &&Gpu| !gpu.allowed;
    let n_whole = all.len() - n_faults;
    for node in *nodes {
        let own = || gpus.iter().filter(|gpu| gpu.node == node.name);
        let n_drained = own().filter(is_drained).count();
        if n_drained > 0 && node.drain.is_none() {
            all.push(format!("{} drained on {}", count(n_drained, "GPU"), node.name));
        }
        let n_closed = own().filter(is_closed).count();
        if n_closed > 0 {
            all.push(format!("{} not allowed on {}", count(n_closed, "GPU"), node.name));
        }
    }
    let n_drained = gpus.iter().filter(is_drained).count();
    let n_closed = gpus.iter().filter(is_closed).count();
    let mut short = Vec::new();
    if n_faults > 0 {
        short.push(count(n_faults, "fault"));
    }
    match (n_drained, n_whole) {
        (0, 0) => {}
        (0, n) => short.push(format!("{} drained", count(n, "node"))),
        (n, _) => short.push(format!("{} drained", count(n, "GPU"))),
    }
    if n_closed > 0 {
        short.push(format!("{} not allowed", count(n_closed, "GPU")));
    }
    let style = match (n_faults, short.is_empty()) {
        (0, true) => "free",
        (0, false) => "soft",
        _ => "out",
    };
    let short = if short.is_empty() { "no GPU, no node".to_owned() } else { short.join(", ") };
    GlanceAnswer::new("Broken or drained", style, short).and(named(all))
}

fn reserved(overview: &Overview<'_>) -> GlanceAnswer {
    let title = "Reserved soon";
    let now = overview.now;
    let soon = overview.reservations.iter().filter(|it| until(it.from, now) < SOON_S);
    let soon: Vec<_> = soon.collect();
    let Some(first) = soon.first() else {
        return GlanceAnswer::new(title, "free", "nothing in 7 days");
    };
    let texts = soon.iter().map(|it| {
        let n = it.gpus.len();
        let gpus = (n > 0).then(|| count(n, "GPU"));
        let what: Vec<String> = it.nodes.iter().cloned().chain(gpus).collect();
        let whom = match &it.beneficiary {
            Some(name) => format!("for {name}"),
            None => "maintenance".to_owned(),
        };
        let when = match until(it.from, now) {
            0 => "now".to_owned(),
            seconds => format!("in {}", span(seconds)),
        };
        format!("{} {whom} {when}", what.join(", "))
    });
    let short = match until(first.from, now) {
        0 => "now".to_owned(),
        seconds => format!("in {}", span(seconds)),
    };
    let answer = GlanceAnswer::new(title, "idle", short).about("/reservations", first.name.clone());
    answer.and(named(texts.collect()))
}
