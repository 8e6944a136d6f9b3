//! The page of a job: its state, why it waits, its GPUs, its output and its events. An array has
//! its elements instead of output.

use std::collections::BTreeMap;

use askama::Template;
use gpool_model::verb::JobVerb;
use gpool_wire::cost::Cost;
use gpool_wire::gpu::xid::JobXid;
use gpool_wire::job_metrics::JobMetrics;
use gpool_wire::live_usage::LiveUsage;
use gpool_wire::usage::GpuHistory;
use gpool_wire::{Gpu, Job, JobEvent, NodeUse, Reason, Report, Time, Why};

use crate::frame::Frame;
use crate::jobs::{JobTable, job_orders, limit, soon, style};
use crate::lines::{self, ChartGroup};
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::text::{ago, gib, percent, places, span, until};

/// More events than this are not shown; the last ones are.
const EVENTS_MAX: usize = 200;
/// Most reasons, jobs with GPUs, their places, and changes that help.
const REASONS_MAX: usize = 20;
const HOLDERS_MAX: usize = 12;
const PLACES_MAX: usize = 8;
const HELPS_MAX: usize = 5;
/// The verbs with a button, and whether the button asks again.
const VERBS: [(JobVerb, &str); 6] = [
    (JobVerb::Hold, "Hold"),
    (JobVerb::Release { at: None }, "Release"),
    (JobVerb::Pause, "Pause"),
    (JobVerb::Resume, "Resume"),
    (JobVerb::Requeue { hold: false }, "Requeue…"),
    (JobVerb::Cancel, "Cancel…"),
];

/// The contents of the page of a job.
#[derive(Debug, Clone, Copy)]
pub struct JobPage<'a> {
    pub frame: Frame<'a>,
    /// The job with its use.
    pub report: &'a Report,
    /// Why it waits, and what would help; for a waiting job.
    pub why: Option<&'a Why>,
    /// Its events, oldest first.
    pub events: &'a [JobEvent],
    /// The end of its output; `Err` says why it is not shown.
    pub output: Result<&'a str, &'a str>,
    /// The stream of the output: `both`, `stdout` or `stderr`.
    pub stream: &'a str,
    /// All devices.
    pub gpus: &'a [Gpu],
    /// Their utilization, memory and power while the job ran.
    pub history: &'a GpuHistory,
    /// Its use of hosts and the metrics that it reports.
    pub over_time: &'a JobMetrics,
    /// The elements of an array, and the index of the next page.
    pub elements: Option<(&'a [Job], Option<u32>)>,
    /// The address of the page without the order.
    pub address: &'a str,
    pub order: Order<'a>,
    pub now: Time,
}

const EVENTS: [Column<JobEvent>; 3] = [
    Column("Time", "at", By::Text(|event| event.time.to_string())),
    Column("Event", "event", By::Text(|event| event.text.clone())),
    Column("By", "by", By::Text(|event| event.by.clone().unwrap_or_default())),
];

/// The keys of orders that the tables of the page can have: of the elements and of the events.
#[must_use]
pub fn job_page_orders() -> Vec<&'static str> {
    [job_orders(), keys(&EVENTS)].concat()
}

struct EventRow<'a> {
    at: String,
    ago: String,
    text: &'a str,
    by: &'a str,
}

/// A part of the request that the job used.
pub struct RequestUse {
    pub label: &'static str,
    pub text: String,
    pub part: u32,
}

struct Elements {
    n: u64,
    states: Vec<(String, &'static str, u64, u64, u64)>,
    table: JobTable,
    next: Option<u32>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobTemplate<'a> {
    frame: Frame<'a>,
    job: &'a Job,
    state: &'a str,
    style: &'static str,
    verbs: Vec<(&'static str, &'static str)>,
    rows: Vec<(String, String)>,
    reasons: Vec<&'a str>,
    why: Explained<'a>,
    groups: Vec<ChartGroup>,
    used: Vec<RequestUse>,
    notes: Vec<String>,
    can_retry: bool,
    nothing_used: &'static str,
    events: Vec<EventRow<'a>>,
    heads: Vec<ColumnHeading>,
    n_earlier: usize,
    output: String,
    no_output: &'a str,
    streams: [(&'static str, bool); 3],
    elements: Option<Elements>,
}

impl JobPage<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let Self { frame, report, events, output, .. } = *self;
        let job = &report.job;
        let n_earlier = events.len().saturating_sub(EVENTS_MAX);
        let mut events: Vec<&JobEvent> = events[n_earlier..].iter().rev().collect();
        self.order.sort(&EVENTS, &mut events, |it| *it);
        let applies = |(verb, _): &&(JobVerb, _)| !job.private && verb.applies_in(job.state);
        let verbs = VERBS.iter().filter(applies).map(|(verb, text)| (verb.name(), *text));
        let page = JobTemplate {
            frame,
            job,
            state: job.state.as_str(),
            style: style(job.state),
            verbs: verbs.collect(),
            rows: rows(job, self.now),
            reasons: reasons(self.why.map_or(&job.wait.reasons, |why| &why.reasons)),
            why: self.why.map(|why| explained(why, self.now)).unwrap_or_default(),
            groups: self.groups(job),
            used: used(report),
            notes: notes(report),
            can_retry: !job.private && job.state.is_end() && job.run.can_retry != Some(false),
            nothing_used: nothing_used(job),
            events: events.into_iter().map(|it| self.event(it)).collect(),
            heads: self.order.heads(&EVENTS, self.address),
            n_earlier,
            output: output.map(readable).unwrap_or_default(),
            no_output: output.err().unwrap_or_default(),
            streams: ["both", "stdout", "stderr"].map(|it| (it, it == self.stream)),
            elements: self.elements(job),
        };
        render(&page)
    }

    fn groups(&self, job: &Job) -> Vec<ChartGroup> {
        let gpus = lines::of_gpus(job, self.gpus, self.history, self.events, self.now);
        let hosts = lines::of_hosts(job, self.over_time, self.events);
        [gpus, hosts].into_iter().filter(|group| !group.charts.is_empty()).collect()
    }

    fn event<'e>(&self, event: &'e JobEvent) -> EventRow<'e> {
        EventRow {
            at: event.time.to_string(),
            ago: ago(event.time, self.now),
            text: &event.text,
            by: event.by.as_deref().unwrap_or_default(),
        }
    }

    fn elements(&self, job: &Job) -> Option<Elements> {
        let (array, (elements, next)) = (job.array.as_ref()?, self.elements?);
        let (mut at, n) = (0, array.n_elements.max(1));
        let part = |(state, count): (&String, &u64)| {
            let style = match state.as_str() {
                "succeeded" => "free",
                "failed" | "timed_out" | "lost" => "out",
                "running" | "starting" => "busy",
                _ => "soft",
            };
            let from = at * 1000 / n;
            at += count;
            (state.clone(), style, *count, from, at * 1000 / n - from)
        };
        let states = array.n_by_state.iter().map(part).collect();
        let order = (self.order, self.address);
        let table = JobTable::sorted(elements, self.now, "No element has this state.", order);
        Some(Elements { n: array.n_elements, states, table, next })
    }
}

/// Why a job waits, beside its reasons.
#[derive(Default)]
struct Explained<'a> {
    /// Its place in the queue, and its expected start.
    facts: Vec<String>,
    /// The jobs that have the GPUs that it could use.
    holders: Vec<BlockingJob<'a>>,
    n_more_holders: usize,
    /// Changes with which it would start sooner: what, when, and the flags or the command.
    helps: Vec<(&'a str, String, &'a str)>,
}

/// A job with GPUs that another job waits for.
struct BlockingJob<'a> {
    job: &'a str,
    user: &'a str,
    places: String,
    until: String,
}

/// The reasons that block a job; all, if none blocks it alone.
fn reasons(all: &[Reason]) -> Vec<&str> {
    let some_block = all.iter().any(|reason| reason.blocking);
    let shown = all.iter().filter(|reason| reason.blocking || !some_block);
    shown.map(|reason| reason.text.as_str()).take(REASONS_MAX).collect()
}

fn explained(why: &Why, now: Time) -> Explained<'_> {
    let mut facts = Vec::new();
    if let Some(place) = why.place.as_ref().filter(|place| place.n_ahead > 0) {
        let jobs = if place.n_ahead == 1 { "job is" } else { "jobs are" };
        facts.push(format!("{} {jobs} before it in the queue.", place.n_ahead));
    }
    let start = why.eta.as_ref().and_then(|eta| eta.p50);
    facts.extend(start.map(|at| format!("It is expected to start {}.", soon(at, now))));
    facts.extend(why.eta_missing.as_ref().map(|text| format!("Its start is not known: {text}.")));
    let mut held = BTreeMap::<(&str, &str), (Vec<String>, Option<Time>)>::new();
    for node in &why.nodes {
        for device in node.devices.iter().filter(|device| device.matches) {
            let (Some(job), user) = (&device.job, device.user.as_deref()) else { continue };
            let entry = held.entry((job, user.unwrap_or_default())).or_default();
            entry.0.push(format!("{}:{}", node.name, device.index));
            entry.1 = entry.1.max(device.until);
        }
    }
    let mut holders: Vec<_> = held.into_iter().collect();
    // Those that end first are first; those without an end are last.
    holders.sort_by_key(|((job, _), (_, until))| (until.is_none(), *until, *job));
    let n_more_holders = holders.len().saturating_sub(HOLDERS_MAX);
    let holder = |((job, user), (mut places, end)): ((_, _), (Vec<String>, Option<Time>))| {
        let n_more = places.len().saturating_sub(PLACES_MAX);
        places.truncate(PLACES_MAX);
        let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
        let until = end.map_or_else(|| "not known".to_owned(), |at| soon(at, now));
        BlockingJob { job, user, places: places.join(" ") + &more, until }
    };
    let helps = why.alternatives.iter().filter(|it| it.helps).map(|it| {
        let start = it.eta.as_ref().and_then(|eta| eta.p50);
        let start = start.map_or_else(String::new, |at| format!("starts {}", soon(at, now)));
        (it.text.as_str(), start, it.flags.as_str())
    });
    let helps = helps.take(HELPS_MAX).collect();
    let holders = holders.into_iter().take(HOLDERS_MAX).map(holder).collect();
    Explained { facts, holders, n_more_holders, helps }
}

/// Why nothing is known of the use.
pub fn nothing_used(job: &Job) -> &'static str {
    match () {
        () if job.array.is_some() => "Each element has its own use.",
        () if job.run.started_at.is_none() && job.state.is_end() => "The job never started.",
        () if job.run.started_at.is_none() => "Nothing is measured before the job starts.",
        () if job.state.is_end() => "Nothing was measured: the job was too short, or used no GPU.",
        () => "Parts of the request are known after the end.",
    }
}

/// The facts about a job, with their labels.
pub fn rows(job: &Job, now: Time) -> Vec<(String, String)> {
    let ago = |at: Time| format!("{} ({})", ago(at, now), at.short());
    let start =
        job.forecast.eta.as_ref().and_then(|eta| eta.p50).filter(|_| job.run.started_at.is_none());
    let cost: Vec<String> = job.usage.cost.iter().map(Cost::text).collect();
    let xids: Vec<String> = job.run.xids.iter().map(JobXid::text).collect();
    let all = [
        ("User", Some(job.user.clone())),
        ("Project", Some(job.project.clone())),
        ("GPUs", Some(job.request.gpus_words().into_owned())),
        ("Place", Some(places(&job.placement)).filter(|it| !it.is_empty())),
        ("Priority", Some(job.request.priority_number().to_string())),
        (
            "Time limit",
            limit(job).map(|it| span(it) + if job.array.is_some() { " each" } else { "" }),
        ),
        ("Submitted", Some(ago(job.submitted_at))),
        ("Expected start", start.map(|at| format!("in {}", span(until(at, now))))),
        ("Started", job.run.started_at.map(ago)),
        ("Idle", job.run.idle_since.map(|at| format!("for {}", span(until(now, at))))),
        ("Ended", job.run.ended_at.map(ago)),
        ("Ran", ran(job)),
        ("Cost", Some(cost.join(" + ")).filter(|it| !it.is_empty())),
        ("Attempt", Some(job.run.attempt.to_string()).filter(|_| job.run.attempt > 1)),
        ("Exit code", job.run.exit_code.map(|code| code.to_string())),
        ("Cause", job.run.cause_text.clone()),
        ("GPU errors", Some(xids.join("; ")).filter(|it| !it.is_empty())),
        ("Directory", job.request.directory.clone()),
        ("Command", Some(job.request.command.join(" ")).filter(|it| !it.is_empty())),
    ];
    let labeled = job.request.labeled().into_iter();
    let live = job.usage.live.as_ref().map(LiveUsage::rows).unwrap_or_default();
    let live = live.into_iter().map(|(label, text)| match label {
        "memory" => ("Host memory", text),
        _ => ("Disk", text),
    });
    let all = all.into_iter().filter_map(|(label, text)| Some((label, text?)));
    all.chain(labeled).chain(live).map(|(label, text)| (capital(label), text)).collect()
}

/// A label as the page writes it.
fn capital(label: &str) -> String {
    let mut letters = label.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The time from the start to the end, for a job without elements.
fn ran(job: &Job) -> Option<String> {
    let (start, end) = (job.run.started_at?, job.run.ended_at.filter(|_| job.array.is_none())?);
    Some(span(until(end, start)))
}

/// The measured parts of the request.
pub fn used(report: &Report) -> Vec<RequestUse> {
    let peak =
        |bytes: Option<u64>| bytes.map_or_else(String::new, |it| format!(", {} peak", gib(it)));
    let rows = [
        ("GPU utilization", report.gpu_utilization, String::new()),
        ("GPU memory", report.gpu_memory_share, peak(report.gpu_memory_peak)),
        ("CPU cores", report.cpu_share, String::new()),
        ("Host memory", report.memory_share, peak(report.memory_peak)),
        ("Time limit", report.time_share, String::new()),
    ];
    let used = |(label, part, more): (&'static str, Option<f64>, String)| {
        let part = percent(part?);
        Some(RequestUse { label, text: format!("{part} %{more}"), part })
    };
    rows.into_iter().filter_map(used).collect()
}

/// The use on each node, and the hints for the next request.
pub fn notes(report: &Report) -> Vec<String> {
    let nodes = NodeUse::texts(&report.nodes).into_iter();
    let nodes = nodes.map(|(node, used)| format!("GPUs on {node}: {used}"));
    nodes.chain(report.hints.iter().map(|hint| hint.text.clone())).collect()
}

/// Output without control characters and terminal sequences.
fn readable(output: &str) -> String {
    let mut text = String::with_capacity(output.len());
    let mut chars = output.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                // A control sequence ends with a letter or one of these (ECMA-48, 5.4).
                while chars.next().is_some_and(|it| !('@'..='~').contains(&it)) {}
            }
            '\n' | '\t' => text.push(char),
            char if char.is_control() => {}
            char => text.push(char),
        }
    }
    text
}
