//! Reasons for the queue order, and for times in the future.

use gpool_model::unit::GpuTime;
use gpool_model::{DependencyKind, Reason as R};
use serde_json::{Value, json};

use super::{About, Explanation, about};
use crate::request_words as words;
use crate::time::Time;

pub(super) const ABOUT: &[About] = &[
    about(
        "ahead_in_order",
        "Other jobs are before it in the queue, and the free capacity is for them.",
        "gpool queue shows the order; gpool prio changes it, within your permissions",
    ),
    about(
        "backoff_after_failure",
        "It failed, and its next attempt starts after a delay.",
        "gpool show has the time",
    ),
    about("begin_time", "Its begin time has not come (--begin).", "gpool edit JOB --begin TIME"),
    about(
        "dependency_failed",
        "Its dependency ended in another way than required, so it can never start.",
        "gpool edit JOB --after none removes the dependency; gpool cancel ends the job",
    ),
    about(
        "gpu_time_had",
        "The policy prefers jobs with less GPU time, and the GPU time of two jobs differs.",
        "nothing to do; gpool policy show has the bounds between levels",
    ),
    about(
        "group_parallel_limit",
        "The array runs as many elements at once as its limit allows.",
        "gpool edit JOB --max-parallel N",
    ),
    about(
        "preemption_grace",
        "gpool has preempted other jobs for it, and they have not ended yet.",
        "nothing to do; it starts when they have ended, at the latest after their grace period",
    ),
    about("waits_for_job", "It waits for another job (--after).", "gpool show names that job"),
    about(
        "waits_for_one_of",
        "It waits for one of several jobs (--after-one).",
        "gpool show names these jobs",
    ),
    about(
        "would_delay",
        "It fits now, but would delay the planned start of a job before it in the queue.",
        "with a shorter --time it may end before that start",
    ),
];

pub(super) fn explain(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::AheadInOrder { job, n_ahead } => {
            let text = match n_ahead {
                1 => format!("Job {job} is before it in the queue"),
                _ => format!("{n_ahead} jobs are before it in the queue, the last is job {job}"),
            };
            (text, vec![("job", json!(job)), ("n_ahead", json!(n_ahead))])
        }
        R::WouldDelay { job, planned_at } => {
            let at = Time(*planned_at);
            let short = at.short();
            let text = format!("It would delay job {job}, which is planned to start at {short}");
            (text, vec![("job", json!(job)), ("planned_at", json!(at))])
        }
        R::GroupParallelLimit { running, most } => (
            format!(
                "{running} of its elements run or have a planned start, and its limit is {most} \
                 at once"
            ),
            vec![("running", json!(running)), ("most", json!(most))],
        ),
        R::WaitsForJob { job, kind } => (
            format!("It waits for job {job} to {}", ending(*kind)),
            vec![("job", json!(job)), ("kind", json!(kind))],
        ),
        R::WaitsForOneOf { job, kind, n_jobs } => {
            let end = ending(*kind);
            let text = match n_jobs {
                1 => format!("It waits for job {job} to {end}, the only one left"),
                _ => format!("It waits for one of {n_jobs} jobs, such as job {job} to {end}"),
            };
            (text, vec![("job", json!(job)), ("kind", json!(kind)), ("n_jobs", json!(n_jobs))])
        }
        R::DependencyFailed { job, state } => (
            format!("It can never start: its dependency, job {job}, has ended as {state}"),
            vec![("job", json!(job)), ("state", json!(state))],
        ),
        R::BeginTime { at } => {
            (format!("It begins at {} or later", Time(*at).short()), vec![("at", json!(Time(*at)))])
        }
        R::BackoffAfterFailure { until, attempt } => (
            format!("It runs again after {} (attempt {attempt})", Time(*until).short()),
            vec![("until", json!(Time(*until))), ("attempt", json!(attempt))],
        ),
        _ => return told_of_preemption(reason),
    })
}

/// Reasons for ending victims, and for GPU time of other jobs.
fn told_of_preemption(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::PreemptionGrace { of, devices, job, n_jobs, until } => {
            let victims = words::releases((*job, *n_jobs), of.as_ref(), devices);
            let by = until.map(|until| format!(", at {} at the latest", Time(until).short()));
            let device = |(node, index): &(_, u32)| json!({"node": node, "gpu": index});
            let facts = vec![
                ("job", json!(job)),
                ("n_jobs", json!(n_jobs)),
                ("user", json!(of.as_ref().map(|(user, _)| user))),
                ("project", json!(of.as_ref().map(|(_, project)| project))),
                ("gpus", json!(devices.iter().map(device).collect::<Vec<Value>>())),
                ("until", json!(until.map(Time))),
            ];
            (format!("It has a place, and starts when {victims}{}", by.unwrap_or_default()), facts)
        }
        R::GpuTimeHad { job, theirs, own, until } => {
            let used = format!("Job {job} has used {theirs} GPU-hours and this job {own}");
            let text = match until {
                Some(until) => {
                    format!("{used}: job {job} is preempted after {}", Time(*until).short())
                }
                None if theirs > own => format!("{used}: job {job} is preempted"),
                None => format!("{used}: jobs with less go first"),
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
    json!(crate::words::cores(time.get() / (GpuTime::HOUR.get() / 1000)))
}
