//! Which jobs would start otherwise if something were otherwise: the middle courses of two excerpts
//! side by side.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::{JobId, Millis, Timestamp};

use super::WORTHWHILE;
use super::course::{Bounds, Course};
use super::length::Pace;
use super::part::Part;

/// A job that would start at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Which.
    pub job: JobId,
    /// When it starts as it is, if everybody ends in the middle; `None` if not within what is
    /// looked at.
    pub before: Option<Timestamp>,
    /// The same with the change.
    pub after: Option<Timestamp>,
}

impl Moved {
    /// By how much later, and by how much earlier.
    fn by(&self) -> (Millis, Millis) {
        let at = |moment: Option<Timestamp>| moment.unwrap_or(Timestamp::MAX);
        let (before, after) = (at(self.before), at(self.after));
        (after.since(before), before.since(after))
    }
}

/// When each job starts if everybody ends in the middle; `None` if a plan broke an invariant.
#[must_use]
pub fn middle_starts(part: &Part, n_starts: usize) -> Option<BTreeMap<JobId, Timestamp>> {
    let course = Course::of(part, Pace::Middle, &Bounds { target: None, n_starts });
    let starts = course.starts.into_iter().map(|(job, start)| (job, start.at)).collect();
    (!course.is_broken).then_some(starts)
}

/// The jobs that start earlier or later by more than is worth a word: those that start later
/// first, the worst first.
#[must_use]
pub fn moved(before: &Part, after: &Part, n_starts: usize) -> Vec<Moved> {
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
