//! Reasons for the queue order, and for times in the future.

use gpool_model::unit::GpuTime;
use gpool_model::{DependencyKind, Reason as R};
use serde_json::{Value, json};

use super::{About, Told, about};
use crate::request_words as words;
use crate::time::Time;

pub(super) const ABOUT: &[About] = &[
    about(
        "ahead_in_order",
        "Another job is before it, and what is free is for that one.",
        "gpool queue shows the order; gpool prio changes it as far as you may",
    ),
    about(
        "backoff_after_failure",
        "It failed, and is tried again after a pause.",
        "gpool show says when",
    ),
    about("begin_time", "It is not to start before a moment (--begin).", "gpool edit changes it"),
    about(
        "dependency_failed",
        "A job that it waits for ended otherwise than was asked, so it can never start.",
        "gpool show names that job; gpool cancel takes this one off the queue",
    ),
    about(
        "gpu_time_had",
        "Whoever has had less GPU-time goes first here, and this job and another differ in it.",
        "nothing; gpool policy show has the bounds between levels",
    ),
    about(
        "group_parallel_limit",
        "As many elements of the array run as may at once.",
        "gpool edit changes the limit",
    ),
    about(
        "preemption_grace",
        "What others had on loan is taken back for it, and they are still leaving its place.",
        "nothing; it starts when they have left, or when their grace is over",
    ),
    about("waits_for_job", "It waits for another job to end (--after).", "gpool show names it"),
    about(
        "waits_for_one_of",
        "It waits for one of several jobs to end (--after-one).",
        "gpool show names them",
    ),
    about(
        "would_delay",
        "It would fit now, and delay the planned start of a job before it.",
        "a shorter --time may fit in between",
    ),
];

pub(super) fn told(reason: &R) -> Option<Told> {
    Some(match reason {
        R::AheadInOrder { job, n_ahead } => {
            let text = match n_ahead {
                1 => format!("job {job} goes first"),
                _ => format!("{n_ahead} jobs go first, job {job} the last of them"),
            };
            (text, vec![("job", json!(job)), ("n_ahead", json!(n_ahead))])
        }
        R::WouldDelay { job, planned_at } => {
            let at = Time(*planned_at);
            let text =
                format!("it would not end before {at}, when job {job} is planned to start there");
            (text, vec![("job", json!(job)), ("planned_at", json!(at))])
        }
        R::GroupParallelLimit { running, most } => (
            format!("{running} of its elements run, and {most} may at once"),
            vec![("running", json!(running)), ("most", json!(most))],
        ),
        R::WaitsForJob { job, kind } => (
            format!("waits for job {job} to {}", ending(*kind)),
            vec![("job", json!(job)), ("kind", json!(kind))],
        ),
        R::WaitsForOneOf { job, kind, n_jobs } => {
            let end = ending(*kind);
            let text = match n_jobs {
                1 => format!("waits for job {job} to {end}, the last that may"),
                _ => format!("waits for one of {n_jobs} jobs, such as job {job} to {end}"),
            };
            (text, vec![("job", json!(job)), ("kind", json!(kind)), ("n_jobs", json!(n_jobs))])
        }
        R::DependencyFailed { job, state } => (
            format!(
                "job {job}, which it waited for, is {state}; edit or cancel it: it can't start so"
            ),
            vec![("job", json!(job)), ("state", json!(state))],
        ),
        R::BeginTime { at } => (
            format!("starts at {} at the earliest", Time(*at).short()),
            vec![("at", json!(Time(*at)))],
        ),
        R::BackoffAfterFailure { until, attempt } => (
            format!("attempt {attempt} comes after a pause, until {}", Time(*until).short()),
            vec![("until", json!(Time(*until))), ("attempt", json!(attempt))],
        ),
        _ => return told_of_taking_back(reason),
    })
}

/// Reasons for ending victims, and for GPU time of other jobs.
fn told_of_taking_back(reason: &R) -> Option<Told> {
    Some(match reason {
        R::PreemptionGrace { of, devices, job, n_jobs, until } => {
            let leaves = words::leaves((*job, *n_jobs), of.as_ref(), devices);
            let by = until.map(|until| format!(", by {} at the latest", Time(until).short()));
            let device = |(node, index): &(_, u32)| json!({"node": node, "gpu": index});
            let facts = vec![
                ("job", json!(job)),
                ("n_jobs", json!(n_jobs)),
                ("user", json!(of.as_ref().map(|(user, _)| user))),
                ("project", json!(of.as_ref().map(|(_, project)| project))),
                ("gpus", json!(devices.iter().map(device).collect::<Vec<Value>>())),
                ("until", json!(until.map(Time))),
            ];
            (format!("its place is decided; {leaves} first{}", by.unwrap_or_default()), facts)
        }
        R::GpuTimeHad { job, theirs, own, until } => {
            let had = format!("job {job} has had {theirs} GPU-hours, this one {own}");
            let text = match until {
                Some(until) => format!("{had}: it makes room, not before {}", Time(*until).short()),
                None if theirs > own => format!("{had}: it makes room"),
                None => format!("{had}: who has had less goes first"),
            };
            let facts = vec![
                ("job", json!(job)),
                ("gpu_hours_of_job", gpu_hours(*theirs)),
                ("gpu_hours", gpu_hours(*own)),
                ("until", json!(until.map(Time))),
            ];
            (text, facts)
        }
        _ => return None,
    })
}

fn ending(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::Ok => "succeed",
        DependencyKind::Each => "succeed, element by element",
        DependencyKind::Fail => "fail",
        DependencyKind::End => "end",
        DependencyKind::Start => "start",
    }
}

/// Formats GPU time as hours of one GPU, to three decimals.
fn gpu_hours(time: GpuTime) -> Value {
    json!(crate::node::cores(time.get() / (GpuTime::HOUR.get() / 1000)))
}
