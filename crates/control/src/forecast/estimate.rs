//! Three courses made into moments: of all jobs that wait, of one with whose ends it waits for, of
//! one that is not there yet with whom it would delay.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{Basis, Caller, Eta, JobId, JobNumber, Millis, NewJob, Phase, Timestamp, WhatIf};

use super::course::{Bounds, Course, Newcomer};
use super::learnt::Learnt;
use super::length::{Length, Pace};
use super::part::{Part, whole};
use super::{HORIZON, WORTHWHILE};

/// When the jobs of an excerpt will likely start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forecast {
    /// When it was made.
    pub as_of: Timestamp,
    /// As far as it looks.
    pub horizon: Timestamp,
    /// Of each job that may start by what is known.
    pub etas: BTreeMap<JobId, Eta>,
    /// How far ahead the middle of each of them was before anything learnt moved it.
    pub leads: BTreeMap<JobId, Millis>,
    /// Jobs that wait for room and come after all of them.
    pub n_beyond: u64,
    /// Jobs that were looked at and never start, by what is known.
    pub unknown: BTreeSet<JobId>,
    /// The last job that there was.
    pub last_job: JobNumber,
    /// Whether a course had to be given up because a plan broke an invariant.
    pub is_broken: bool,
}

/// When one job will likely start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Estimate {
    /// When; `None` if nothing that is known lets it start, or too many others wait.
    pub eta: Option<Eta>,
    /// Whether so many others wait that this can't be said.
    pub is_out_of_reach: bool,
    /// When it starts if everybody ends in the middle, before what was learnt.
    pub middle: Option<Timestamp>,
    /// Whose ends it waits for, by the middle course.
    pub freed_by: Vec<FreedBy>,
    /// When it would start without its deadline, if that is what keeps it from starting.
    pub without_deadline: Option<Eta>,
}

/// A job whose end another one waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreedBy {
    /// Which.
    pub job: JobId,
    /// Devices that it leaves to the other one.
    pub n_devices: u32,
    /// When it ends, in the early and the late course.
    pub ends: [Option<Timestamp>; 2],
}

/// What would come of a job that is not there yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imagined {
    /// When it would likely start.
    pub eta: Option<Eta>,
    /// Whose middle would come later by more than is worth a word, the worst first.
    pub delays: Vec<Delay>,
}

/// By how much a job would start later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// Which job.
    pub job: JobId,
    /// By how much.
    pub by: Millis,
}

/// When the jobs of an excerpt will likely start.
#[must_use]
pub fn forecast(part: &Part, n_starts: usize, learnt: &Learnt) -> Forecast {
    let bounds = Bounds { target: None, n_starts };
    let courses = Pace::ALL.map(|pace| Course::of(part, pace, &bounds));
    let mut made = Forecast {
        as_of: part.now,
        horizon: courses.iter().map(|course| course.reach).min().unwrap_or(part.now),
        etas: BTreeMap::new(),
        leads: BTreeMap::new(),
        n_beyond: part.n_beyond,
        unknown: BTreeSet::new(),
        last_job: part.excerpt.last_job(),
        is_broken: courses.iter().any(|course| course.is_broken),
    };
    for row in part.excerpt.jobs.values() {
        let id = row.job.id;
        let waits = matches!(row.job.phase, Phase::Waiting { .. })
            || row.job.phase.waits_for_room_since().is_some();
        if !waits || part.beyond == Some(id) {
            continue;
        }
        match eta_of(part, &courses, id) {
            Some(eta) => {
                let lead = eta.p50.unwrap_or(eta.horizon).since(part.now);
                made.leads.insert(id, lead);
                made.etas.insert(id, learnt.corrected(eta, part.now));
            }
            None => drop(made.unknown.insert(id)),
        }
    }
    made
}

impl Forecast {
    /// When a job that waits for room will likely start; `None` if that is not known.
    #[must_use]
    pub fn eta_of(&self, job: JobId) -> Option<Eta> {
        // One that came since may go before all of them.
        let is_after = || self.n_beyond > 0 && job.number <= self.last_job;
        match self.etas.get(&job) {
            Some(eta) => Some(*eta),
            None if self.unknown.contains(&job) || !is_after() => None,
            None => Some(Eta {
                p10: None,
                p50: None,
                p90: None,
                basis: Basis::Limit,
                horizon: self.horizon,
            }),
        }
    }
}

/// When one job will likely start, and whose ends it waits for.
#[must_use]
pub fn estimate(part: &Part, job: JobId, n_starts: usize, learnt: &Learnt) -> Estimate {
    if !part.covers(&part.world(), job) {
        return Estimate { is_out_of_reach: true, ..Estimate::default() };
    }
    let bounds = Bounds { target: Some(job), n_starts };
    let courses = Pace::ALL.map(|pace| Course::of(part, pace, &bounds));
    let eta = eta_of(part, &courses, job).map(|eta| learnt.corrected(eta, part.now));
    let [early, middle, late] = &courses;
    let start = middle.starts.get(&job);
    let freed_by = start.into_iter().flat_map(|start| &start.freed_by);
    let freed_by = freed_by.map(|(job, n_devices)| {
        let mut ends = [early, late].map(|course| course.ends.get(job).copied());
        if let [Some(from), Some(to)] = ends {
            ends = [Some(from.min(to)), Some(from.max(to))];
        }
        FreedBy { job: *job, n_devices: *n_devices, ends }
    });
    let row = part.excerpt.jobs.get(&job).or_else(|| part.excerpt.jobs.get(&whole(job)));
    let deadline = row.and_then(|row| row.spec.life.deadline).filter(|_| eta.is_none());
    let without_deadline = deadline.and_then(|_| {
        let part = part.with(&WhatIf::WithoutDeadline, whole(job));
        estimate(&part, job, n_starts, learnt).eta
    });
    Estimate {
        eta,
        without_deadline,
        is_out_of_reach: false,
        middle: start.map(|start| start.at),
        freed_by: freed_by.collect(),
    }
}

/// What would come of a job if it were submitted now, after those that prepare it.
#[must_use]
pub fn imagine(
    part: &Part,
    caller: &Caller,
    jobs: &[NewJob],
    lengths: &[Length],
    n_starts: usize,
    learnt: &Learnt,
) -> Imagined {
    let newcomer = Newcomer { caller, jobs, lengths };
    let with = Pace::ALL.map(|pace| Course::with(part, pace, &newcomer, n_starts));
    let Some(id) = with[1].1 else { return Imagined::default() };
    let courses = with.map(|(course, _)| course);
    // Among jobs that are not looked at it may find its place too, and would wait for them.
    let is_covered = part.n_beyond == 0 || {
        let [_, middle, _] = &courses;
        let others =
            part.excerpt.jobs.values().filter(|row| row.job.phase.allocations().is_empty());
        let is_last = |at: Timestamp| {
            let start = |id| middle.starts.get(id).map(|start| start.at);
            others.clone().filter_map(|row| start(&row.job.id)).all(|other| other <= at)
        };
        middle.starts.get(&id).is_some_and(|start| start.at == part.now || !is_last(start.at))
    };
    let eta = eta_of(part, &courses, id).map(|eta| learnt.corrected(eta, part.now));
    let bounds = Bounds { target: None, n_starts };
    let without = Course::of(part, Pace::Middle, &bounds);
    let mut delays: Vec<Delay> = without
        .starts
        .iter()
        .filter_map(|(job, before)| {
            let after = courses[1].starts.get(job)?;
            Some(Delay { job: *job, by: after.at.since(before.at) })
        })
        .filter(|delay| delay.by > WORTHWHILE)
        .collect();
    delays.sort_by_key(|delay| (std::cmp::Reverse(delay.by), delay.job));
    Imagined { eta: eta.filter(|_| is_covered), delays }
}

/// The three moments of one job; `None` if it never starts by what is known.
fn eta_of(part: &Part, courses: &[Course; 3], job: JobId) -> Option<Eta> {
    let starts = courses.each_ref().map(|course| course.starts.get(&job));
    let never = |(course, start): (&Course, &Option<_>)| {
        start.is_none() && (course.is_whole || course.is_broken)
    };
    if courses.iter().zip(&starts).any(never) {
        return None;
    }
    // To end earlier may let somebody else go first, so a course may start a job later than a
    // slower one does.
    let mut moments: Vec<Timestamp> =
        starts.iter().flatten().map(|start| start.at.max(part.now)).collect();
    moments.sort_unstable();
    let basis = starts.iter().flatten().filter_map(|start| start.basis).reduce(Basis::and);
    let at = |ix: usize| moments.get(ix).copied();
    let missing = courses.iter().zip(&starts).filter(|(_, start)| start.is_none());
    let reach = missing.map(|(course, _)| course.reach).min();
    let horizon = reach.unwrap_or(part.now.after(HORIZON));
    Some(Eta { p10: at(0), p50: at(1), p90: at(2), basis: basis.unwrap_or(Basis::Limit), horizon })
}
