//! What if there were other nodes, another policy or other shares: a form, and the simulated effect
//! on the present queue and on past jobs.

use askama::Template;
use gpool_model::Policy;
use gpool_wire::{
    SimulateAsk, SimulatedCourse, SimulatedFigures, SimulatedJob, SimulatedPairs, SimulatedProject,
    Simulation,
};

use crate::frame::Frame;
use crate::jobs::number_of;
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::spec::quoted;
use crate::text::span;

/// More changed jobs than this are not shown.
const JOBS_MAX: usize = 25;

/// The fields of the form, as in the URL.
#[derive(Debug, Clone, Default)]
pub struct Supposed {
    /// Number of nodes to add.
    pub nodes: String,
    /// GPUs of each of them.
    pub gpus: String,
    pub model: String,
    /// A preset of the policy.
    pub preset: String,
    /// A project with another guarantee.
    pub project: String,
    /// Its guaranteed GPUs.
    pub guaranteed: String,
    /// A node without new jobs.
    pub drain: String,
    /// More changes, one in a line.
    pub more: String,
    /// The simulated time of the present queue.
    pub ahead: String,
    /// The past time span of jobs that run once more; empty for none.
    pub past: String,
}

impl Supposed {
    /// The simulated times of the present queue.
    pub const AHEAD: [&'static str; 4] = ["2h", "8h", "24h", "48h"];
    pub const PAST: [&'static str; 4] = ["1d", "7d", "30d", "90d"];

    /// The changes as text, in the order of the form.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        let Self { nodes, gpus, model, preset, project, guaranteed, drain, more, .. } = self;
        let all = |values: &[&String]| values.iter().all(|value| !value.trim().is_empty());
        let mut changes = Vec::new();
        if all(&[nodes, gpus, model]) {
            let word = if nodes == "1" { "node" } else { "nodes" };
            changes.push(format!("add {nodes} {word} x {gpus} {model}"));
        }
        if all(&[preset]) {
            changes.push(format!("policy preset={preset}"));
        }
        if all(&[project, guaranteed]) {
            changes.push(format!("project {project} guaranteed={guaranteed}"));
        }
        if all(&[drain]) {
            changes.push(format!("drain {drain}"));
        }
        changes.extend(more.lines().map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned));
        changes
    }

    #[must_use]
    pub fn ask(&self) -> SimulateAsk {
        let known = |all: [&'static str; 4], asked: &str| all.into_iter().find(|it| *it == asked);
        let ahead = known(Self::AHEAD, &self.ahead).unwrap_or(Self::AHEAD[2]);
        SimulateAsk {
            supposed: self.changes(),
            horizon: Some(ahead.to_owned().into()),
            past: known(Self::PAST, &self.past).map(|past| past.to_owned().into()),
        }
    }

    /// The same as a command.
    fn command(&self) -> String {
        let ask = self.ask();
        let mut words = vec!["gpool simulate".to_owned()];
        words.extend(ask.supposed.iter().map(|change| format!("--if {}", quoted(change))));
        words.extend(ask.horizon.map(|horizon| format!("--for {horizon}")));
        words.extend(ask.past.map(|past| format!("--past {past}")));
        words.join(" ")
    }
}

#[derive(Debug, Clone, Copy)]
pub struct WhatIf<'a> {
    pub frame: Frame<'a>,
    pub supposed: &'a Supposed,
    /// The address of the page without the order.
    pub address: &'a str,
    /// The order of the table of jobs.
    pub order: Order<'a>,
    pub models: &'a [String],
    pub projects: &'a [String],
    pub nodes: &'a [String],
    /// The name of the preset that the policy has.
    pub preset: &'a str,
    /// The effect, if changes are asked for.
    pub simulation: Option<&'a Simulation>,
    /// Why there is none.
    pub refused: &'a [String],
}

/// Choices with the chosen one.
type Choices<'a> = Vec<(&'a str, bool)>;

/// The simulation of a time span.
struct CourseView {
    title: String,
    lead: String,
    verdict: String,
    rows: Vec<FigureRow>,
    warnings: Vec<String>,
}

/// A figure without and with the changes.
struct FigureRow {
    name: &'static str,
    before: String,
    after: String,
    change: String,
    /// `free` for better, `out` for worse, `soft` for neither.
    style: &'static str,
}

struct Moved {
    id: String,
    name: String,
    user: String,
    gpus: String,
    what: String,
}

#[derive(Template)]
#[template(path = "whatif.html")]
struct WhatIfPage<'a> {
    frame: Frame<'a>,
    supposed: &'a Supposed,
    models: Choices<'a>,
    projects: Choices<'a>,
    nodes: Choices<'a>,
    presets: Choices<'a>,
    preset: &'a str,
    ahead: Choices<'a>,
    past: Choices<'a>,
    refused: &'a [String],
    is_made: bool,
    command: String,
    courses: Vec<CourseView>,
    heads: Vec<ColumnHeading>,
    jobs: Vec<Moved>,
    n_hidden: u64,
    shares: Vec<(&'a str, [String; 3])>,
}

impl WhatIf<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let asked = self.supposed;
        let ahead = if asked.ahead.is_empty() { Supposed::AHEAD[2] } else { &asked.ahead };
        let jobs = self.simulation.map(|made| &made.jobs[..]).unwrap_or_default();
        let mut jobs: Vec<&SimulatedJob> = jobs.iter().collect();
        self.order.sort(&JOBS, &mut jobs, |job| *job);
        let n_touched = self.simulation.map_or(0, |made| made.n_touched);
        render(&WhatIfPage {
            frame: self.frame,
            supposed: asked,
            models: choices(self.models.iter().map(String::as_str), &asked.model),
            projects: choices(self.projects.iter().map(String::as_str), &asked.project),
            nodes: choices(self.nodes.iter().map(String::as_str), &asked.drain),
            presets: choices(Policy::PRESETS, &asked.preset),
            preset: self.preset,
            ahead: choices(Supposed::AHEAD, ahead),
            past: choices(Supposed::PAST, &asked.past),
            refused: self.refused,
            is_made: self.simulation.is_some(),
            command: asked.command(),
            courses: self.simulation.map(courses).unwrap_or_default(),
            heads: self.order.heads(&JOBS, self.address),
            jobs: jobs.into_iter().take(JOBS_MAX).map(moved).collect(),
            n_hidden: n_touched.saturating_sub(JOBS_MAX as u64),
            shares: self.simulation.map(|made| shares(&made.projects)).unwrap_or_default(),
        })
    }
}

const JOBS: [Column<SimulatedJob>; 5] = [
    Column("Job", "id", By::Number(|job| job.id.parse().unwrap_or(0.0))),
    Column("Name", "name", By::Text(|job| job.name.clone())),
    Column("User", "user", By::Text(|job| job.user.clone())),
    Column("GPUs", "gpus", By::Number(|job| number_of(&job.gpus))),
    Column("Effect", "effect", By::Text(|job| job.what.clone())),
];

/// The keys of orders that the table of jobs can have.
#[must_use]
pub fn whatif_orders() -> Vec<&'static str> {
    keys(&JOBS)
}

fn choices<'s>(all: impl IntoIterator<Item = &'s str>, chosen: &str) -> Choices<'s> {
    all.into_iter().map(|it| (it, it == chosen)).collect()
}

fn moved(job: &SimulatedJob) -> Moved {
    let what = match job.what.as_str() {
        "sooner" => "starts sooner",
        "later" => "starts later",
        "starts" => "starts, and would not without the changes",
        "waits" => "does not start, and would without the changes",
        "taken_back" => "is preempted",
        "kept" => "is not preempted",
        "stopped" => "is stopped",
        "held" => "is held",
        other => other,
    };
    let both = job.before.as_ref().and_then(|it| it.at).zip(job.after.at);
    let by = both.map(|(was, is)| {
        let (sooner, later) = (was.0.since(is.0).get() / 1000, is.0.since(was.0).get() / 1000);
        format!(" by {}", span(sooner.max(later)))
    });
    let by = by.filter(|_| ["sooner", "later"].contains(&job.what.as_str())).unwrap_or_default();
    Moved {
        id: job.id.clone(),
        name: job.name.clone(),
        user: job.user.clone(),
        gpus: job.gpus.clone(),
        what: format!("{what}{by}"),
    }
}

fn courses(made: &Simulation) -> Vec<CourseView> {
    let length = |course: &SimulatedCourse| span(course.until.0.since(course.since.0).get() / 1000);
    let queue = made.queue.as_ref().map(|it| {
        let title = format!("Present queue, next {}", length(it));
        let lead = format!(
            "{} jobs that wait now; no new job comes, and running jobs end as jobs like them did. \
             Waits count from now.",
            it.n_jobs
        );
        course(it, title, lead)
    });
    let past = made.past.as_ref().map(|it| {
        let title = format!("Jobs of the past {}", length(it));
        let lead = format!(
            "{} jobs that ended, once more at their times on an empty cluster, with the same run \
             times. Waits count from the submission.",
            it.n_jobs
        );
        course(it, title, lead)
    });
    queue.into_iter().chain(past).collect()
}

fn course(it: &SimulatedCourse, title: String, lead: String) -> CourseView {
    let (before, after) = (&it.before, it.after.as_ref().unwrap_or(&it.before));
    let verdict = it.paired.as_ref().map(verdict).unwrap_or_default();
    CourseView {
        title,
        lead,
        verdict,
        rows: rows(before, after, it.n_jobs),
        warnings: it.warnings.clone(),
    }
}

/// The paired comparison in a sentence.
fn verdict(pairs: &SimulatedPairs) -> String {
    let unchanged = pairs.n_jobs.saturating_sub(pairs.n_sooner + pairs.n_later);
    let mean = match pairs.mean_s {
        mean if mean.abs() < 1.0 => "the mean wait is the same".to_owned(),
        mean if mean < 0.0 => format!("jobs wait {} less on average", seconds(-mean)),
        mean => format!("jobs wait {} longer on average", seconds(mean)),
    };
    let interval = pairs.interval_s.map(|[low, high]| {
        format!(" (95 % confidence interval {} to {})", signed(low), signed(high))
    });
    format!(
        "Job by job, {mean}{}: {} start over a minute sooner, {} later, {unchanged} neither.",
        interval.unwrap_or_default(),
        pairs.n_sooner,
        pairs.n_later
    )
}

fn rows(before: &SimulatedFigures, after: &SimulatedFigures, n_jobs: u64) -> Vec<FigureRow> {
    let none = if n_jobs == 0 { "no job" } else { "not within it" };
    let wait = |name, was: Option<f64>, is: Option<f64>| {
        let text = |wait: Option<f64>| wait.map_or_else(|| none.to_owned(), seconds);
        let by = was.zip(is).map(|(was, is)| is - was);
        let by = by.or(match (was, is) {
            (None, Some(_)) => Some(f64::NEG_INFINITY),
            (Some(_), None) => Some(f64::INFINITY),
            _ => None,
        });
        let change = |by: f64| if by.is_finite() { signed(by) } else { String::new() };
        row(name, (text(was), text(is)), by, Some(true), change)
    };
    let count = |name, was: u64, is: u64, is_bad: Option<bool>| {
        #[expect(clippy::cast_precision_loss, reason = "numbers of jobs")]
        let by = is as f64 - was as f64;
        row(name, (was.to_string(), is.to_string()), Some(by), is_bad, |by| {
            format!("{by:+.0}").replace('-', "−")
        })
    };
    let used = |part: Option<f64>| {
        part.map_or_else(|| "not known".to_owned(), |part| format!("{:.1} %", 100.0 * part))
    };
    let points = before.utilization.zip(after.utilization).map(|(was, is)| 100.0 * (is - was));
    vec![
        wait("Wait, median", before.wait_p50_s, after.wait_p50_s),
        wait("Wait, 90th percentile", before.wait_p90_s, after.wait_p90_s),
        count("Jobs that do not start", before.n_waiting, after.n_waiting, Some(true)),
        row(
            "GPUs in use",
            (used(before.utilization), used(after.utilization)),
            points,
            None,
            |by| format!("{by:+.1} points").replace('-', "−"),
        ),
        count("Preemptions", before.n_preempted, after.n_preempted, Some(true)),
        count("GPUs", before.n_gpus, after.n_gpus, None),
    ]
}

fn row(
    name: &'static str,
    (before, after): (String, String),
    by: Option<f64>,
    is_bad: Option<bool>,
    text: impl Fn(f64) -> String,
) -> FigureRow {
    let by = by.filter(|_| before != after);
    let style = match by.zip(is_bad) {
        Some((by, is_bad)) if (by > 0.0) == is_bad => "out",
        Some(_) => "free",
        None => "soft",
    };
    let change = by.map_or_else(|| "same".to_owned(), text);
    FigureRow { name, before, after, change, style }
}

fn seconds(wait: f64) -> String {
    let wait = std::time::Duration::try_from_secs_f64(wait).unwrap_or_default();
    span(wait.as_secs())
}

/// A difference: `−3 min 20 s`.
fn signed(difference: f64) -> String {
    let sign = if difference < 0.0 { '−' } else { '+' };
    format!("{sign}{}", seconds(difference.abs()))
}

fn shares(projects: &[SimulatedProject]) -> Vec<(&str, [String; 3])> {
    let gpus = |gpus: Option<f64>| gpus.map_or_else(|| "all".to_owned(), |it| format!("{it:.1}"));
    let change = |was: String, is: String| match was == is {
        true => was,
        false => format!("{was} → {is}"),
    };
    let row = |it: &'_ SimulatedProject| {
        let (was, is) = (&it.before, &it.after);
        [
            change(gpus(was.guaranteed), gpus(is.guaranteed)),
            change(gpus(was.share), gpus(is.share)),
            change(gpus(Some(was.held)), gpus(Some(is.held))),
        ]
    };
    projects.iter().map(|it| (it.project.as_str(), row(it))).collect()
}
