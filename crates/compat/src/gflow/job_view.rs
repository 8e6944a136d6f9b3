//! gflow's view of a job.

use gpool_cli::foreign::gflow::translate::PRIORITY_USUAL;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words;
use gpool_cli::session::Session;
use gpool_model::JobId;
use gpool_model::job::JobState;
use gpool_wire::{Job, Time};
use serde_json::{Map, Value, json};

use crate::slurm::times::{elapsed, long_time};

/// The state of a job: gflow's abbreviation and word.
#[must_use]
pub fn state(job: &Job) -> (&'static str, &'static str) {
    match job.state {
        JobState::Held => ("H", "Hold"),
        JobState::Waiting | JobState::Pending => ("PD", "Queued"),
        JobState::Starting | JobState::Running | JobState::Paused | JobState::Stopping => {
            ("R", "Running")
        }
        JobState::Succeeded => ("CD", "Finished"),
        JobState::Failed | JobState::Lost => ("F", "Failed"),
        JobState::Cancelled => ("CA", "Cancelled"),
        JobState::TimedOut => ("TO", "Timeout"),
    }
}

/// Every state: abbreviation and word, in the order of groups.
pub const STATES: [(&str, &str); 7] = [
    ("R", "Running"),
    ("PD", "Queued"),
    ("H", "Hold"),
    ("CD", "Finished"),
    ("F", "Failed"),
    ("CA", "Cancelled"),
    ("TO", "Timeout"),
];

/// gflow's word for why a job waits or how it ended.
#[must_use]
pub fn reason(job: &Job) -> Option<String> {
    if job.state == JobState::Cancelled {
        return Some("CancelledByUser".to_owned());
    }
    if job.run.cause.as_deref() == Some("dependency_failed") {
        return Some("DependencyFailed".to_owned());
    }
    if job.state.is_end() {
        return None;
    }
    let word = match job.wait.reasons.first()?.code.as_str() {
        "held_by_user" | "held_by_admin" | "set_aside" | "over_budget" => "JobHeldUser",
        "begin_time" | "backoff_after_failure" => "BeginTime",
        "waits_for_job" => "Dependency",
        "quota_user"
        | "quota_user_in_project"
        | "quota_project"
        | "user_slots"
        | "group_parallel_limit" => "Quota",
        _ => "Resources",
    };
    Some(word.to_owned())
}

/// The number of requested or allocated GPUs.
#[must_use]
pub fn n_gpus(job: &Job) -> usize {
    let held: usize = job.placement.iter().map(|placed| placed.devices.len()).sum();
    if held > 0 {
        return held;
    }
    let asked = job.request.gpus_text().rsplit(':').next().unwrap_or_default();
    asked.parse().unwrap_or(usize::from(!job.request.gpus_text().is_empty()))
}

/// The indexes of its GPUs.
#[must_use]
pub fn gpus(job: &Job) -> Vec<u32> {
    job.placement.iter().flat_map(|placed| placed.devices.iter().copied()).collect()
}

/// Its run time, or a dash.
#[must_use]
pub fn time(job: &Job, now: Time) -> String {
    elapsed(job, now).map_or_else(|| "-".to_owned(), long_time)
}

/// The columns of `gqueue --format`.
pub const COLUMNS: [&str; 16] = [
    "JOBID",
    "NAME",
    "ST",
    "TIME",
    "NODES",
    "NODELIST(REASON)",
    "TIMELIMIT",
    "MEMORY",
    "USER",
    "PROJECT",
    "COMMAND",
    "DEPENDENCY",
    "NODELIST",
    "PRIORITY",
    "REASON",
    "STATE",
];

#[must_use]
pub fn cell(job: &Job, column: &str, now: Time) -> String {
    let text = match column {
        "JOBID" => job.id.clone(),
        "NAME" => job.name.clone(),
        "ST" => state(job).0.to_owned(),
        "TIME" => time(job, now),
        "NODES" => n_gpus(job).to_string(),
        "COMMAND" if job.request.script.is_some() => job.name.clone(),
        "COMMAND" => words::command(&job.request.command),
        "DEPENDENCY" if job.request.after.is_empty() => "-".to_owned(),
        "DEPENDENCY" => {
            let ids =
                job.request.after.iter().map(|after| after.rsplit(':').next().unwrap_or(after));
            ids.collect::<Vec<_>>().join(",")
        }
        "PRIORITY" => {
            (i64::from(job.request.priority_number()) + i64::from(PRIORITY_USUAL)).to_string()
        }
        "REASON" => reason(job).unwrap_or_else(|| "-".to_owned()),
        "STATE" => state(job).1.to_owned(),
        "NODELIST" | "NODELIST(REASON)" => match reason(job) {
            Some(reason) => format!("({reason})"),
            None => {
                let indexes: Vec<String> = gpus(job).iter().map(u32::to_string).collect();
                if indexes.is_empty() { "-".to_owned() } else { indexes.join(",") }
            }
        },
        "TIMELIMIT" => limit(job).unwrap_or_else(|| "UNLIMITED".to_owned()),
        "MEMORY" => job.request.mem_bytes().map_or_else(|| "-".to_owned(), memory),
        "USER" => job.user.clone(),
        "PROJECT" if job.project == "default" => "-".to_owned(),
        _ => job.project.clone(),
    };
    safe(&text).into_owned()
}

fn limit(job: &Job) -> Option<String> {
    let limit = gpool_cli::render::clock::span(job.request.time_seconds()?);
    Some(long_time(limit.get() / 1000))
}

fn memory(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 30) == 0 => format!("{}G", bytes >> 30),
        bytes => format!("{}M", bytes >> 20),
    }
}

/// A job with gflow's keys; null values are left out as in gflow.
#[must_use]
pub fn json(job: &Job, session: &Session) -> Map<String, Value> {
    let now = session.view().now;
    // A number, as in gflow.
    let id = job.id.parse::<JobId>();
    let id = id.map_or_else(|_| json!(job.id), |id| json!(id.plain()));
    let mut keys = Map::new();
    keys.insert("id".to_owned(), id);
    keys.insert("name".to_owned(), json!(job.name));
    keys.insert("state".to_owned(), json!(state(job).1));
    keys.insert("time".to_owned(), json!(time(job, now)));
    keys.insert("gpus".to_owned(), json!(gpus(job)));
    keys.insert("user".to_owned(), json!(job.user));
    keys.insert("submitted_at".to_owned(), json!(job.submitted_at));
    if let Some(reason) = reason(job) {
        keys.insert("reason".to_owned(), json!(reason));
    }
    if let Some(limit) = limit(job) {
        keys.insert("time_limit".to_owned(), json!(limit));
    }
    keys
}
