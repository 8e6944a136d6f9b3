//! The table of jobs, which several pages have.

use askama::Template;
use gpool_model::job::JobState;
use gpool_wire::{Job, Time};

use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::text::{ago, places, roughly, span, until};

/// Most rows of a sorted table.
pub const SHOWN_MAX: usize = 100;

#[derive(Debug, Clone)]
pub struct Row {
    pub id: String,
    /// The address of the job's page, or of the list of its group.
    pub address: String,
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

#[derive(Debug, Clone, Template)]
#[template(path = "part/jobs.html")]
pub struct JobTable {
    pub rows: Vec<Row>,
    pub heads: Vec<ColumnHeading>,
    /// Whether a job has an expected start.
    pub has_start: bool,
    /// Whether each row has a box to select it.
    pub can_select: bool,
    /// The text without rows.
    pub empty: &'static str,
}

impl JobTable {
    /// A table of some jobs in their order; headings lead to `page`, the list of all in another
    /// order.
    pub fn new(jobs: &[Job], now: Time, empty: &'static str, page: &str) -> Self {
        let rows: Vec<Row> = jobs.iter().map(|job| row(job, now)).collect();
        let has_start = rows.iter().any(|row| !row.start.is_empty());
        let heads = Self::visible_heads(Order::default().heads(&COLUMNS, page), has_start);
        Self { rows, heads, has_start, can_select: false, empty }
    }

    /// A table of running jobs: none has an expected start.
    pub fn running(jobs: &[Job], now: Time, empty: &'static str, page: &str) -> Self {
        let table = Self::new(jobs, now, empty, page);
        Self { heads: Self::visible_heads(table.heads, false), has_start: false, ..table }
    }

    /// A table in an order of the user; `page` is its address with its query.
    pub fn sorted(
        jobs: &[Job],
        now: Time,
        empty: &'static str,
        (order, page): (Order<'_>, &str),
    ) -> Self {
        let mut jobs: Vec<&Job> = jobs.iter().collect();
        order.sort(&COLUMNS, &mut jobs, |job| *job);
        let jobs: Vec<Job> = jobs.into_iter().take(SHOWN_MAX).cloned().collect();
        let table = Self::new(&jobs, now, empty, page);
        let heads = Self::visible_heads(order.heads(&COLUMNS, page), table.has_start);
        Self { heads, ..table }
    }

    fn visible_heads(heads: Vec<ColumnHeading>, has_start: bool) -> Vec<ColumnHeading> {
        heads.into_iter().filter(|head| has_start || head.name != "Start").collect()
    }
}

const COLUMNS: [Column<Job>; 9] = [
    Column("Job", "id", By::Number(number)),
    Column("Name", "name", By::Text(|job| job.name.clone())),
    Column("User", "user", By::Text(|job| job.user.clone())),
    Column("Project", "project", By::Text(|job| job.project.clone())),
    Column("GPUs", "gpus", By::Number(gpus)),
    Column("State", "state", By::Text(|job| job.state.as_str().to_owned())),
    Column("Time", "time", By::Number(length)),
    Column("Start", "start", By::Number(start)),
    Column("Place or reason", "", By::Nothing),
];

/// The keys of orders that a table of jobs can have.
#[must_use]
pub fn job_orders() -> Vec<&'static str> {
    keys(&COLUMNS)
}

/// The number of a job; for an element that of its array, then its index.
fn number(job: &Job) -> f64 {
    let (array, element) = job.id.split_once('.').unwrap_or((&job.id, "0"));
    let [array, element] = [array, element].map(|it| it.parse::<f64>().unwrap_or(0.0));
    array + element / 1e7
}

fn gpus(job: &Job) -> f64 {
    number_of(job.request.gpus_text())
}

/// The number of GPUs of a request: 4 of `H100-80G:4`.
pub fn number_of(gpus: &str) -> f64 {
    let words = gpus.split(|char: char| !char.is_ascii_digit() && char != '.');
    words.filter_map(|word| word.parse::<f64>().ok()).next_back().unwrap_or(0.0)
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a date fit")]
fn length(job: &Job) -> f64 {
    match (job.run.started_at, job.run.ended_at) {
        (Some(start), Some(end)) => end.0.since(start.0).get() as f64,
        (Some(start), None) => -(start.0.get() as f64),
        (None, _) => -(job.submitted_at.0.get() as f64),
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a date fit")]
fn start(job: &Job) -> f64 {
    let likely = job.forecast.eta.as_ref().and_then(|eta| eta.p50);
    likely.map_or(f64::INFINITY, |at| at.0.get() as f64)
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
    let (gpus, group) = (job.request.gpus_words(), job.folded_group());
    // Each job of a group has its own times.
    let waits = job.run.started_at.is_none() && group.is_none();
    let start = job.forecast.eta.as_ref().and_then(|eta| eta.p50).filter(|_| waits);
    let gpus = match (group, &job.array) {
        (Some(group), _) => group.gpus_words(),
        (None, Some(array)) => format!("{gpus} each of {} elements", array.n_elements),
        (None, None) => gpus.into_owned(),
    };
    let address = match group.filter(|_| !job.private) {
        Some(group) => format!("/groups/{}", group.name),
        None => format!("/jobs/{}", job.id),
    };
    Row {
        id: job.reference(),
        address,
        name: group.map_or_else(|| job.name.clone(), |_| String::new()),
        user: job.user.clone(),
        project: job.project.clone(),
        gpus,
        state: job.row_state().as_str(),
        style: style(job.row_state()),
        is_idle: job.run.idle_since.is_some(),
        time: group.map_or_else(|| time(job, now), |_| String::new()),
        start: start.map_or_else(String::new, |at| starts(job, at, now)),
        start_at: start.map(|at| at.to_string()).unwrap_or_default(),
        place: place(job),
        can_act: !job.private && !job.state.is_end() && group.is_none(),
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
    let late_s = until(job.forecast.eta.as_ref()?.p90?, now);
    let is_later = late_s > until(likely, now);
    is_later.then(|| format!("90 % sure within {}", roughly(late_s)))
}

/// The run time so far with the limit, the wait so far, or when the job ended.
fn time(job: &Job, now: Time) -> String {
    if let Some(ended) = job.run.ended_at {
        let ran = job.run.started_at.map(|start| format!(", ran {}", span(until(ended, start))));
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
    let paused = job.run.paused_since;
    match (job.run.started_at, limit) {
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
    let limit = std::time::Duration::try_from_secs_f64(job.request.time_seconds()?).ok()?;
    Some(limit.as_secs())
}

/// The devices of a job, or why it has none.
fn place(job: &Job) -> String {
    if let Some(group) = job.folded_group() {
        return group.words();
    }
    let reason =
        job.wait.reasons.iter().find(|it| it.blocking).or_else(|| job.wait.reasons.first());
    match (reason, &job.run.cause_text) {
        _ if !job.placement.is_empty() && !job.state.is_end() => places(&job.placement),
        (Some(reason), _) => reason.text.clone(),
        (None, Some(cause)) => cause.clone(),
        (None, None) => String::new(),
    }
}
