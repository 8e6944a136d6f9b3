//! Finds jobs that would start at another time after a change: compares the median courses of two
//! excerpts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::{JobId, Millis, Timestamp};

use super::WORTHWHILE;
use super::course::{Bounds, SimulationResult};
use super::length::Pace;
use super::part::ForecastInput;

/// A job that would start at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    pub job: JobId,
    /// When it starts without the change, if every job ends at its median; `None` if not within the
    /// horizon.
    pub before: Option<Timestamp>,
    /// When it starts with the change.
    pub after: Option<Timestamp>,
}

impl Moved {
    /// Returns how much later, and how much earlier.
    fn by(&self) -> (Millis, Millis) {
        let at = |moment: Option<Timestamp>| moment.unwrap_or(Timestamp::MAX);
        let (before, after) = (at(self.before), at(self.after));
        (after.since(before), before.since(after))
    }
}

/// Returns when each job starts if every job ends at its median; `None` if a plan broke an
/// invariant.
#[must_use]
pub fn middle_starts(part: &ForecastInput, n_starts: usize) -> Option<BTreeMap<JobId, Timestamp>> {
    let course = SimulationResult::of(part, Pace::Middle, &Bounds { target: None, n_starts });
    let starts = course.starts.into_iter().map(|(job, start)| (job, start.at)).collect();
    (!course.is_broken).then_some(starts)
}

/// Returns the jobs that start noticeably earlier or later: later ones first, the worst first.
#[must_use]
pub fn moved(before: &ForecastInput, after: &ForecastInput, n_starts: usize) -> Vec<Moved> {
    let starts = |part| middle_starts(part, n_starts);
    let Some((was, is)) = starts(before).zip(starts(after)) else { return Vec::new() };
    let jobs = before.excerpt.jobs.keys();
    let start = |starts: &BTreeMap<JobId, Timestamp>, job| starts.get(job).copied();
    let moves =
        jobs.map(|job| Moved { job: *job, before: start(&was, job), after: start(&is, job) });
    let mut moved: Vec<Moved> = moves
        .filter(|moved| {
            let (later, earlier) = moved.by();
            later > WORTHWHILE || earlier > WORTHWHILE
        })
        .collect();
    moved.sort_by_key(|moved| (Reverse(moved.by().0), moved.by().1, moved.job));
    moved
}
