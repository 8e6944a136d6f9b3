//! Jobs as a list: `gpool queue`.

use gpool_model::job::JobState;
use gpool_wire::field::field;
use gpool_wire::keys::keys;
use gpool_wire::{Job, JobCreate, JobForecast, JobRun, JobUsage, JobWait, Status};

use super::clock::span;
use super::eta;
use super::hours::{figure, gpu_hours};
use super::life::ran;
use super::list::{Column, Noun};
use super::reason::brief;
use super::style::Style;
use super::table::Cell;
use super::view::View;
use super::words::{self, NOTHING, count};

pub const JOBS: Noun<Job> = Noun {
    columns: COLUMNS,
    table: &[
        "id", "name", "params", "user", "project", "gpus", "state", "time", "starts", "reason",
    ],
    wide: &[
        "id",
        "name",
        "params",
        "user",
        "project",
        "prio",
        "gpus",
        "cpus",
        "mem",
        "state",
        "attempt",
        "submitted",
        "waited",
        "time",
        "starts",
        "reason",
        "command",
        "note",
    ],
    name: |job| job.id.clone(),
    keys: job_keys,
};

/// The keys of a job. A group stands for its keys, with its name before them.
#[must_use]
pub fn job_keys() -> Vec<String> {
    // Name and project are keys of the job itself.
    let is_of_request = |key: &String| {
        let is_shown = field(key).is_some_and(|field| field.show.is_some());
        is_shown && !["name", "project"].contains(&key.as_str())
    };
    let groups = [
        ("forecast", keys::<JobForecast>()),
        ("request", keys::<JobCreate>().into_iter().filter(is_of_request).collect()),
        ("run", keys::<JobRun>()),
        ("usage", keys::<JobUsage>()),
        ("wait", keys::<JobWait>()),
    ];
    let of_key = |key: String| match groups.iter().find(|(group, _)| *group == key) {
        Some((group, keys)) => keys.iter().map(|key| format!("{group}.{key}")).collect(),
        None => vec![key],
    };
    keys::<Job>().into_iter().flat_map(of_key).collect()
}

/// Every column of the list of jobs.
pub const COLUMNS: &[Column<Job>] = &[
    Column { name: "id", head: "ID", cell: |job, _| Cell::new(&job.reference()).whole() },
    Column {
        name: "name",
        head: "NAME",
        // Each job of a group has its own.
        cell: |job, _| Cell::new(job.folded_group().map_or(&*job.name, |_| NOTHING)),
    },
    Column { name: "params", head: "PARAMS", cell: |job, _| Cell::new(&params(job)) },
    Column {
        name: "user",
        head: "USER",
        cell: |job, view| Cell::new(view.user(&job.user)).common(),
    },
    Column { name: "project", head: "PROJECT", cell: |job, _| Cell::new(&job.project).common() },
    Column { name: "gpus", head: "GPUS", cell: |job, _| gpus(job) },
    Column { name: "state", head: "STATE", cell: |job, _| state(job) },
    Column {
        name: "time",
        head: "TIME / LIMIT",
        cell: |job, view| Cell::new(&time(job, view)).whole(),
    },
    Column {
        name: "starts",
        head: "STARTS",
        cell: |job, view| match job.folded_group() {
            Some(_) => Cell::new(NOTHING),
            None => Cell::new(&eta::starts(job, view)).whole(),
        },
    },
    Column { name: "reason", head: "WHERE / REASON", cell: why },
    Column {
        name: "where",
        head: "WHERE",
        cell: |job, _| Cell::new(&words::places(&job.placement)),
    },
    Column {
        name: "prio",
        head: "PRIO",
        cell: |job, _| Cell::new(&job.request.priority_number().to_string()),
    },
    Column {
        name: "cpus",
        head: "CPUS",
        cell: |job, _| optional(job.request.cpu_cores().map(|n| n.to_string())),
    },
    Column {
        name: "mem",
        head: "MEM",
        cell: |job, _| {
            optional(job.request.mem_bytes().map(|n| gpool_model::Bytes::new(n).to_string()))
        },
    },
    Column {
        name: "attempt",
        head: "ATTEMPT",
        cell: |job, _| Cell::new(&job.run.attempt.to_string()),
    },
    Column {
        name: "submitted",
        head: "SUBMITTED",
        cell: |job, view| Cell::new(&view.clock.short(job.submitted_at, view.now)),
    },
    Column {
        name: "started",
        head: "STARTED",
        cell: |job, view| optional(job.run.started_at.map(|at| view.clock.short(at, view.now))),
    },
    Column {
        name: "ended",
        head: "ENDED",
        cell: |job, view| optional(job.run.ended_at.map(|at| view.clock.short(at, view.now))),
    },
    Column {
        name: "waited",
        head: "WAITED",
        cell: |job, _| Cell::new(&span(job.wait.waited_s).to_string()),
    },
    Column {
        name: "exit",
        head: "EXIT",
        cell: |job, _| optional(job.run.exit_code.map(|n| n.to_string())),
    },
    Column {
        name: "command",
        head: "COMMAND",
        cell: |job, _| Cell::new(&words::command(&job.request.command)),
    },
    Column { name: "kind", head: "KIND", cell: |job, _| Cell::new(job.request.kind_word()) },
    Column { name: "gpuh", head: "GPU-H", cell: |job, _| optional(gpu_hours(job).map(figure)) },
    Column { name: "note", head: "NOTE", cell: |job, _| optional(job.request.note.as_ref()) },
];

fn optional(text: Option<impl AsRef<str>>) -> Cell {
    text.map_or_else(|| Cell::new(NOTHING), |text| Cell::new(text.as_ref()))
}

/// The item and parameters of an element: `lr=0.1 seed=2`.
fn params(job: &Job) -> String {
    let Some(element) = &job.element else { return String::new() };
    let params = element.params.iter().map(|(name, value)| format!("{name}={value}"));
    element.item.iter().cloned().chain(params).collect::<Vec<_>>().join(" ")
}

/// The GPUs of each element or task: `1 ×48` for an array, `8 ×2` for a job of two tasks.
fn gpus(job: &Job) -> Cell {
    if let Some(group) = job.folded_group() {
        return Cell::new(&group.gpus_words());
    }
    // Parts name their tasks themselves.
    let gang = job.gang.as_ref().filter(|_| job.request.parts.is_empty());
    let tasks = gang.map(words::tasks).unwrap_or_default();
    let gpus = job.request.gpus_words();
    match job.array.as_ref().map(|array| array.n_elements) {
        Some(n) => Cell::new(&format!("{gpus}{tasks} ×{n}")),
        None => Cell::new(&format!("{gpus}{tasks}")),
    }
}

fn state(job: &Job) -> Cell {
    let state = job.row_state();
    Cell::new(&words::state(state.as_str())).whole().styled(Style::of_job(state))
}

fn time(job: &Job, view: &View<'_>) -> String {
    // Each job of a group has its own times.
    if job.folded_group().is_some() {
        return NOTHING.to_owned();
    }
    let ran = ran(job, view).map_or(NOTHING.to_owned(), |span| span.to_string());
    match words::limit(job) {
        Some(limit) => format!("{ran} / {limit}"),
        None => ran,
    }
}

/// Where a job runs, how it ended, or why it waits; common reasons have a short form for narrow
/// terminals.
fn why(job: &Job, view: &View<'_>) -> Cell {
    let cell = Cell::new(&reason(job, view)).whole();
    let [only] = job.wait.reasons.as_slice() else { return cell };
    match (job.state, only.code.as_str()) {
        (JobState::Paused, "held_by_user" | "held_by_admin") => cell.or_shorter("is paused"),
        (JobState::Held, "held_by_user") => cell.or_shorter("is held by its user"),
        (JobState::Held | JobState::Paused, "set_aside") => cell.or_shorter("is held by gpool"),
        (JobState::Paused, "released") => cell.or_shorter("idle, GPUs released"),
        (JobState::Held, "held_by_admin") => cell.or_shorter("is held by an admin"),
        (JobState::Waiting, "begin_time") => cell.or_shorter("waits for its begin time"),
        (JobState::Pending, "not_reserved") => cell.or_shorter("only reserved GPUs"),
        _ => cell,
    }
}

/// Where a job runs, how it ended, or why it waits, as text.
fn reason(job: &Job, view: &View<'_>) -> String {
    if let Some(group) = job.folded_group() {
        return group.words();
    }
    if let Some(array) = job.array.as_ref().filter(|array| is_under_way(job, array)) {
        return super::arrays::progress(array);
    }
    match job.state {
        JobState::Paused if job.wait.reasons.is_empty() => words::places(&job.placement),
        JobState::Held | JobState::Waiting | JobState::Pending | JobState::Paused => {
            let run = match job.run.attempts.last() {
                Some(_) if job.state != JobState::Paused => format!("run {}: ", job.run.attempt),
                _ => String::new(),
            };
            match job.wait.reasons.as_slice() {
                [] => String::new(),
                [only] if job.wait.n_more_reasons == 0 => {
                    format!("{run}{}", brief(only, &job.user, view))
                }
                [first, rest @ ..] => {
                    let n_more = rest.len() as u64 + job.wait.n_more_reasons;
                    format!("{run}{} (and {n_more} more)", brief(first, &job.user, view))
                }
            }
        }
        JobState::Starting | JobState::Running | JobState::Stopping => {
            let places = words::places(&job.placement);
            match &job.joins {
                _ if let Some(why) = &job.run.stalled => format!("{places} · waits: {why}"),
                Some(joined) => format!("{places} · joins job {joined}"),
                None => places,
            }
        }
        JobState::Succeeded
        | JobState::Failed
        | JobState::Cancelled
        | JobState::TimedOut
        | JobState::Lost => words::end(job),
    }
}

/// Whether the row shows progress: for an array that waits as a whole, the reason is more useful.
fn is_under_way(job: &Job, array: &gpool_wire::ArrayStatus) -> bool {
    let n_wait = array.n_in(&[JobState::Held, JobState::Waiting, JobState::Pending]);
    job.wait.reasons.is_empty() || n_wait < array.n_elements
}

/// The numbers of GPUs and jobs: `6 of 8 GPUs held, 5 busy  3 running, 4 pending`.
#[must_use]
pub fn counts(status: &Status) -> String {
    let of = |key: &str| status.gpus.get(key).copied().unwrap_or(0);
    let (busy, idle) = (of("busy"), of("held_idle"));
    let all: u64 = status.gpus.values().sum();
    let gpus = match (all, idle) {
        (0, _) => "no GPUs".to_owned(),
        (all, 0) => format!("{busy} of {} held", count(all, "GPU")),
        (all, _) => format!("{} of {} held, {busy} busy", busy + idle, count(all, "GPU")),
    };
    let faults = ["unmanaged", "unhealthy", "lost", "unknown"];
    let faults = faults.into_iter().filter(|key| of(key) > 0);
    let faults: String = faults.map(|key| format!(", {} {key}", of(key))).collect();
    let jobs = status.jobs.iter().filter(|(_, n)| **n > 0);
    let jobs: Vec<String> = jobs.map(|(key, n)| format!("{n} {}", words::state(key))).collect();
    let jobs = if jobs.is_empty() { "no jobs".to_owned() } else { jobs.join(", ") };
    format!("{gpus}{faults}  {jobs}")
}

/// The waiting jobs that start first: `next starts: 18 15:40–15:52, 19 by 16:10`.
#[must_use]
pub fn next_starts<'j>(jobs: impl Iterator<Item = &'j Job>, view: &View<'_>) -> Option<String> {
    const MOST: usize = 3;
    let waits = |job: &&Job| matches!(job.state, JobState::Waiting | JobState::Pending);
    let at = |job: &Job| {
        let eta = job.forecast.eta.as_ref()?;
        eta.planned_at.or(eta.p50)
    };
    let mut next: Vec<(_, &Job)> =
        jobs.filter(waits).filter_map(|job| Some((at(job)?, job))).collect();
    next.sort_by_key(|(at, _)| *at);
    let next: Vec<String> = (next.iter().take(MOST))
        .map(|(_, job)| format!("{} {}", job.id, eta::starts(job, view)))
        .collect();
    (!next.is_empty()).then(|| format!("next starts: {}", next.join(", ")))
}

/// The contents of a row whose changes a watched list marks: not its times, which change always.
#[must_use]
pub fn contents(job: &Job) -> String {
    let array = job.array.as_ref().map(super::arrays::progress).unwrap_or_default();
    let (state, places) = (job.state.as_str(), words::places(&job.placement));
    format!(
        "{state} {places} {array} {} {} {}",
        job.name,
        job.request.gpus_words(),
        job.request.priority_number()
    )
}

/// The line below the list: how many rows of how many, and the state of the cluster.
#[must_use]
pub fn footer(n_rows: usize, total: Option<u64>, status: Option<&Status>) -> String {
    let n_rows = u64::try_from(n_rows).unwrap_or(u64::MAX);
    let rows = match total.filter(|total| *total > n_rows) {
        Some(total) => format!("{n_rows} of {} (-n shows more)", count(total, "row")),
        None => count(n_rows, "row"),
    };
    let mut parts = vec![rows];
    if let Some(status) = status {
        let of = |key: &str| status.gpus.get(key).copied().unwrap_or(0);
        let (busy, idle) = (of("busy"), of("held_idle"));
        match (busy + idle, idle) {
            (0, _) => {}
            (held, 0) => parts.push(format!("{} held", count(held, "GPU"))),
            (held, _) => parts.push(format!("{} held, {busy} of them busy", count(held, "GPU"))),
        }
        for (key, word) in
            [("unmanaged", "unmanaged"), ("unhealthy", "unhealthy"), ("lost", "lost")]
        {
            if of(key) > 0 {
                parts.push(format!("{} {word}", of(key)));
            }
        }
        let n_waiting = status.jobs.get("pending").copied().unwrap_or(0);
        if n_waiting > 0 {
            parts.push("`gpool why ID` explains a wait".to_owned());
        }
    }
    parts.join(" · ")
}
