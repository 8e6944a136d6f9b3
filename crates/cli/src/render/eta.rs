//! Expected starts of jobs, in short form.

use gpool_model::Millis;
use gpool_model::job::JobState;
use gpool_wire::{Eta, Job, Time};

use super::view::View;
use super::words::NOTHING;

/// An expected start within this time is shown as `now`.
const NOW: Millis = Millis::from_secs(2);

/// The cell of a list: `15:30–16:09`, `now`, `by 15:52`, `~03:50`, `after 1844`, `> 48 h`.
#[must_use]
pub fn starts(job: &Job, view: &View<'_>) -> String {
    if !matches!(job.state, JobState::Waiting | JobState::Pending | JobState::Paused) {
        return NOTHING.to_owned();
    }
    let awaited = || {
        let first = job.request.after.first().filter(|_| job.state == JobState::Waiting)?;
        Some(format!("after {}", first.split_once(':').map_or(first.as_str(), |(_, job)| job)))
    };
    match &job.forecast.eta {
        None => awaited().unwrap_or_else(|| NOTHING.to_owned()),
        // The estimate depends on the run time of a job that has not started.
        Some(Eta { p50: Some(p50), .. }) if job.state == JobState::Waiting => {
            format!("~{}", view.clock.short(*p50, view.now))
        }
        Some(eta) => match eta.planned_at {
            Some(at) if at.0.since(view.now.0) > NOW => {
                format!("by {}", view.clock.short(at, view.now))
            }
            Some(_) | None => interval(eta, view),
        },
    }
}

/// An estimate as an interval: `15:30–16:09`, `Sat 02:00–05:00`, `now`, `> 48 h`.
#[must_use]
pub fn interval(eta: &Eta, view: &View<'_>) -> String {
    let beyond = || {
        let span = eta.later_than.map_or(Millis::ZERO, |end| end.0.since(eta.as_of.0));
        match span.div_floor(3_600_000).get() {
            0 => format!("> {} min", span.div_floor(60_000).get()),
            hours => format!("> {hours} h"),
        }
    };
    match (eta.p10, eta.p90) {
        (None, _) => beyond(),
        (Some(early), None) => format!("from {}", view.clock.short(early, view.now)),
        (Some(_), Some(late)) if late.0.since(eta.as_of.0) <= NOW => "now".to_owned(),
        (Some(early), Some(late)) => span(early, late, view),
    }
}

/// Two times; the second without the part that both have in common.
fn span(early: Time, late: Time, view: &View<'_>) -> String {
    let (from, to) = (view.clock.short(early, view.now), view.clock.short(late, view.now));
    if from == to {
        return from;
    }
    match (from.split_once(' '), to.split_once(' ')) {
        (Some((day, _)), Some((other, time))) if day == other => format!("{from}–{time}"),
        _ => format!("{from}–{to}"),
    }
}

/// The note after a submission: `Expected start today 15:30–16:09 (in about 1h15)`.
#[must_use]
pub fn likely(eta: &Eta, view: &View<'_>) -> String {
    let when = interval(eta, view);
    match (when.as_str(), eta.p50) {
        ("now", _) => "Expected start now".to_owned(),
        (_, Some(middle)) => {
            let left = middle.0.since(view.now.0);
            let day = if when.starts_with(|c: char| c.is_ascii_digit()) { "today " } else { "" };
            // A date begins with digits too.
            let day = if when.contains('-') { "" } else { day };
            format!("Expected start {day}{when} (in about {left})")
        }
        (_, None) => format!("Expected start {when} from now"),
    }
}
