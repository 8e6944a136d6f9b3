//! The table of jobs, which several pages have.

use askama::Template;
use gpool_model::job::JobState;
use gpool_wire::{Job, Time};

use crate::text::{ago, places, roughly, span, until};

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
    /// Whether each row has a box to select it.
    pub can_select: bool,
    /// The text without rows.
    pub empty: &'static str,
}

impl Table {
    pub fn new(jobs: &[Job], now: Time, empty: &'static str) -> Self {
        Self { rows: jobs.iter().map(|job| row(job, now)).collect(), can_select: false, empty }
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
        return ago(ended, now);
    }
    let limit = limit(job).map(span);
    match (job.started_at, limit) {
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
