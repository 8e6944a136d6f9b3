//! Times of a job, and Slurm's forms of them.

use gpool_cli::render::clock::span;
use gpool_wire::{Job, Time};

/// The time limit in seconds.
#[must_use]
pub fn limit(job: &Job) -> Option<u64> {
    job.request.time_seconds().map(|limit| span(limit).get() / 1000)
}

/// The run time in seconds.
#[must_use]
pub fn elapsed(job: &Job, now: Time) -> Option<u64> {
    let started = job.run.started_at?;
    Some(job.run.ended_at.unwrap_or(now).0.since(started.0).get() / 1000)
}

/// The latest end of a running job with a limit.
#[must_use]
pub fn latest_end(job: &Job) -> Option<Time> {
    let limit = job.request.time_seconds().filter(|_| job.run.ended_at.is_none())?;
    Some(Time(job.run.started_at?.0.after(span(limit))))
}

/// The expected start: the median of the forecast.
#[must_use]
pub fn likely_start(job: &Job) -> Option<Time> {
    serde_json::to_value(&job.forecast.eta).ok()?.get("p50")?.as_str()?.parse().ok()
}

/// A time in short form: `0:05`, `1:02:03`, `2-03:04:05`.
#[must_use]
pub fn time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// A time with all digits: `00:00:05`, `2-03:04:05`.
#[must_use]
pub fn long_time(seconds: u64) -> String {
    let days = seconds / 86400;
    let rest = format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    if days > 0 { format!("{days}-{rest}") } else { rest }
}

/// CPU time: `00:01.108`, or `01:02:03` from an hour on and for whole seconds.
#[must_use]
pub fn cpu_time(millis: u64) -> String {
    let seconds = millis / 1000;
    match millis % 1000 {
        rest if rest > 0 && seconds < 3600 => {
            format!("{:02}:{:02}.{rest:03}", seconds / 60, seconds % 60)
        }
        _ => long_time(seconds),
    }
}
