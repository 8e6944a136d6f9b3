//! The life of a job: its run time, and its events as lines in `gpool events JOB` and `gpool why`
//! of an ended job.

use gpool_model::Millis;
use gpool_wire::{Job, JobEvent, Time};

use super::safe::safe;
use super::view::View;

/// Returns how long a job has run; `None` before it has started.
#[must_use]
pub fn ran(job: &Job, view: &View<'_>) -> Option<Millis> {
    let until = job.run.ended_at.or(job.run.paused_since).unwrap_or(view.now);
    job.run.started_at.map(|started| until.0.since(started.0))
}

/// One event as a line: `14:50:02  job 1844 given lab1:6,7, run 1  (by ana)`.
#[must_use]
pub fn line(event: &JobEvent, view: &View<'_>) -> String {
    let at = event.facts.get("at").and_then(|at| at.as_str()?.parse::<Time>().ok());
    let at = at.map(|at| format!(", at {}", view.clock.short(at, view.now))).unwrap_or_default();
    let by = event.by.as_deref().map(|by| format!(" by {}", view.user(by))).unwrap_or_default();
    let text = format!("{}{at}{by}", view.addressed(&event.text));
    format!("{}  job {} {}", view.clock.second(event.time, view.now), event.job, safe(&text))
}
