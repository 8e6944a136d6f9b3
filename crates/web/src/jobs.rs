//! The table of jobs, which several pages have.

use std::cmp::Ordering;

use askama::Template;
use gpool_model::job::JobState;
use gpool_wire::{Job, Time};

use crate::sort::{Head, Order};
use crate::text::{ago, places, roughly, span, until};

/// Most rows of a sorted table.
const SHOWN_MAX: usize = 100;

/// A row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: String,
    pub name: String,
    pub user: String,
    pub project: String,
    pub gpus: String,
    pub state: &'static str,
    pub style: &'static str,
    pub is_idle: bool,
    pub time: String,
    pub start: String,
    pub start_at: String,
    pub place: String,
    pub can_act: bool,
}

/// The table.
#[derive(Debug, Clone, Template)]
#[template(path = "part/jobs.html")]
pub struct Table {
    pub rows: Vec<Row>,
    pub heads: Vec<Head>,
    /// Whether a job has an expected start.
    pub has_start: bool,
    /// Whether each row has a box to select it.
    pub can_select: bool,
    /// The text without rows.
    pub empty: &'static str,
}

impl Table {
    pub fn new(jobs: &[Job], now: Time, empty: &'static str) -> Self {
        let rows: Vec<Row> = jobs.iter().map(|job| row(job, now)).collect();
        let has_start = rows.iter().any(|row| !row.start.is_empty());
        let columns = COLUMNS.map(|(name, _, is_number)| (name, "", is_number));
        let heads = Self::shown(Order::default().heads(&columns, ""), has_start);
        Self { rows, heads, has_start, can_select: false, empty }
    }

    /// A table of running jobs: none has an expected start.
    pub fn running(jobs: &[Job], now: Time, empty: &'static str) -> Self {
        let table = Self::new(jobs, now, empty);
        Self { heads: Self::shown(table.heads, false), has_start: false, ..table }
    }

    /// A table with boxes, in an order of the user; `page` is its address with its query.
    pub fn sorted(jobs: &[Job], now: Time, order: Order<'_>, page: &str) -> Self {
        let mut jobs: Vec<&Job> = jobs.iter().collect();
        // The sort is stable: equal jobs stay in the order of the queue.
        jobs.sort_by(|one, other| compared(order, one, other));
        let jobs: Vec<Job> = jobs.into_iter().take(SHOWN_MAX).cloned().collect();
        let empty = "No job matches. Submit one with the button above, or with: gpool submit";
        let table = Self::new(&jobs, now, empty);
        let heads = Self::shown(order.heads(&COLUMNS, page), table.has_start);
        Self { heads, can_select: true, ..table }
    }

    fn shown(heads: Vec<Head>, has_start: bool) -> Vec<Head> {
        heads.into_iter().filter(|head| has_start || head.name != "Start").collect()
    }
}

/// The columns with their keys, and whether they are numbers.
const COLUMNS: [(&str, &str, bool); 9] = [
    ("Job", "id", true),
    ("Name", "name", false),
    ("User", "user", false),
    ("Project", "project", false),
    ("GPUs", "gpus", true),
    ("State", "state", false),
    ("Time", "time", true),
    ("Start", "start", false),
    ("Place or reason", "", false),
];

/// Whether a table can have this order.
pub fn is_key(key: &str) -> bool {
    COLUMNS.iter().any(|(_, known, _)| !key.is_empty() && *known == key)
}

fn compared(order: Order<'_>, one: &Job, other: &Job) -> Ordering {
    let number = |job: &Job| job.id.parse::<f64>().unwrap_or(0.0);
    let gpus = |job: &Job| {
        let words = job.gpus.split(|char: char| !char.is_ascii_digit() && char != '.');
        words.filter_map(|word| word.parse::<f64>().ok()).next_back().unwrap_or(0.0)
    };
    let length = |job: &Job| match (job.started_at, job.ended_at) {
        (Some(start), Some(end)) => i128::from(end.0.since(start.0).get()),
        (Some(start), None) => -i128::from(start.0.get()),
        (None, _) => -i128::from(job.submitted_at.0.get()),
    };
    let start =
        |job: &Job| job.eta.as_ref().and_then(|eta| eta.p50).map_or(u64::MAX, |at| at.0.get());
    match order.by {
        "id" => order.of_two(&number(one), &number(other)),
        "name" => order.of_two(&one.name, &other.name),
        "user" => order.of_two(&one.user, &other.user),
        "project" => order.of_two(&one.project, &other.project),
        "gpus" => order.of_two(&gpus(one), &gpus(other)),
        "state" => order.of_two(&one.state.as_str(), &other.state.as_str()),
        "time" => order.of_two(&length(one), &length(other)),
        "start" => order.of_two(&start(one), &start(other)),
        _ => Ordering::Equal,
    }
}

/// The style of a job's state.
pub fn style(state: JobState) -> &'static str {
    match state {
        JobState::Running | JobState::Starting => "busy",
        JobState::Succeeded => "free",
        JobState::Held | JobState::Paused | JobState::Stopping => "idle",
        JobState::Waiting | JobState::Pending | JobState::Cancelled => "soft",
        JobState::Failed | JobState::TimedOut | JobState::Lost => "out",
    }
}

fn row(job: &Job, now: Time) -> Row {
    let start = job.eta.as_ref().and_then(|eta| eta.p50).filter(|_| job.started_at.is_none());
    let gpus = match &job.array {
        Some(array) => format!("{} each of {} elements", job.gpus, array.n_elements),
        None => job.gpus.clone(),
    };
    Row {
        id: job.id.clone(),
        name: job.name.clone(),
        user: job.user.clone(),
        project: job.project.clone(),
        gpus,
        state: job.state.as_str(),
        style: style(job.state),
        is_idle: job.idle_since.is_some(),
        time: time(job, now),
        start: start.map_or_else(String::new, |at| starts(job, at, now)),
        start_at: start.map(|at| at.to_string()).unwrap_or_default(),
        place: place(job),
        can_act: !job.private && !job.state.is_end(),
    }
}

/// When a job probably starts, and by when in 9 of 10 cases.
fn starts(job: &Job, likely: Time, now: Time) -> String {
    match surely(job, likely, now) {
        Some(surely) => format!("{}, {surely}", soon(likely, now)),
        None => soon(likely, now),
    }
}

/// When something probably happens.
pub fn soon(likely: Time, now: Time) -> String {
    match until(likely, now) {
        0 => "now".to_owned(),
        seconds => format!("in {}", roughly(seconds)),
    }
}

/// By when a job starts in 9 of 10 cases, if that is later than the probable start.
pub fn surely(job: &Job, likely: Time, now: Time) -> Option<String> {
    let late_s = until(job.eta.as_ref()?.p90?, now);
    let is_later = late_s > until(likely, now);
    is_later.then(|| format!("90 % sure within {}", roughly(late_s)))
}

/// The run time so far with the limit, the wait so far, or when the job ended.
fn time(job: &Job, now: Time) -> String {
    if let Some(ended) = job.ended_at {
        let ran = job.started_at.map(|start| format!(", ran {}", span(until(ended, start))));
        return format!("{}{}", ago(ended, now), ran.unwrap_or_default());
    }
    let limit = limit(job).map(span);
    // The limit is that of one element.
    if let Some(array) = &job.array {
        let limit = limit.map(|limit| format!(", limit {limit} each")).unwrap_or_default();
        let is_end = |state: &str| {
            matches!(state, "succeeded" | "failed" | "cancelled" | "timed_out" | "lost")
        };
        let ended = array.n_by_state.iter().filter(|(state, _)| is_end(state));
        let n_ended: u64 = ended.map(|(_, n)| n).sum();
        return format!("{n_ended} of {} ended{limit}", array.n_elements);
    }
    // The limit counts no pause.
    let paused = job.paused_since;
    match (job.started_at, limit) {
        (Some(_), _) if paused.is_some() => {
            format!("paused {}", span(until(now, paused.unwrap_or(now))))
        }
        (Some(at), Some(limit)) => format!("{} of {limit}", span(until(now, at))),
        (Some(at), None) => span(until(now, at)),
        (None, limit) => {
            let limit = limit.map(|limit| format!(", limit {limit}")).unwrap_or_default();
            format!("waits {}{limit}", span(until(now, job.submitted_at)))
        }
    }
}

/// The time limit in seconds.
pub fn limit(job: &Job) -> Option<u64> {
    let limit = std::time::Duration::try_from_secs_f64(job.time_limit?).ok()?;
    Some(limit.as_secs())
}

/// The devices of a job, or why it has none.
fn place(job: &Job) -> String {
    let reason = job.reasons.iter().find(|it| it.blocking).or_else(|| job.reasons.first());
    match (reason, &job.cause_text) {
        _ if !job.placement.is_empty() && !job.state.is_end() => places(&job.placement),
        (Some(reason), _) => reason.text.clone(),
        (None, Some(cause)) => cause.clone(),
        (None, None) => String::new(),
    }
}
