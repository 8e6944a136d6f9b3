//! The life of a job as lines: `gpool events JOB`, and below `gpool why` of one that has ended.

use gpool_cli::render::safe::safe;
use gpool_cli::render::view::View;
use gpool_wire::{JobEvent, Time};

/// One event as a line: `14:50:02  job 1844 given lab1:6,7, run 1  (by ana)`.
#[must_use]
pub fn line(event: &JobEvent, view: &View<'_>) -> String {
    let at = event.facts.get("at").and_then(|at| at.as_str()?.parse::<Time>().ok());
    let at = at.map(|at| format!(", at {}", view.clock.short(at, view.now))).unwrap_or_default();
    let by = event.by.as_deref().map(|by| format!(" by {}", view.user(by))).unwrap_or_default();
    let text = format!("{}{at}{by}", event.text);
    format!("{}  job {} {}", view.clock.second(event.time, view.now), event.job, safe(&text))
}
