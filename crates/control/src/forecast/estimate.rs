//! Turns three courses into forecasts: for all waiting jobs, for one job with the jobs that it
//! waits for, and for a new job with the jobs that it would delay.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{Basis, Caller, Eta, JobId, JobNumber, Millis, NewJob, Phase, Timestamp, WhatIf};

use super::calibrator::Calibrator;
use super::course::{Bounds, Newcomer, SimulationResult};
use super::length::{Length, Pace};
use super::part::{ForecastInput, whole};
use super::{HORIZON, WORTHWHILE};

/// Forecasts for the jobs of an excerpt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forecast {
    pub as_of: Timestamp,
    /// The end of the forecast's horizon.
    pub horizon: Timestamp,
    /// The forecasts of jobs that start within the known future.
    pub etas: BTreeMap<JobId, Eta>,
    /// For each of them, the time to its median before any correction.
    pub leads: BTreeMap<JobId, Millis>,
    /// How many pending jobs come after all of these and have no forecast.
    pub n_beyond: u64,
    /// Jobs of the excerpt that never start within the known future.
    pub unknown: BTreeSet<JobId>,
    /// The number of the last job that existed.
    pub last_job: JobNumber,
    /// Whether a course was given up because a plan broke an invariant.
    pub is_broken: bool,
}

/// The forecast of one job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Estimate {
    /// The forecast; `None` if nothing known lets the job start, or too many others wait.
    pub eta: Option<Eta>,
    /// Whether too many others wait for a forecast.
    pub is_out_of_reach: bool,
    /// When it starts if every job ends at its median, before any correction.
    pub middle: Option<Timestamp>,
    /// The jobs that it waits for, in the median course.
    pub freed_by: Vec<FreedBy>,
    /// When it would start without its deadline, if the deadline prevents the start.
    pub without_deadline: Option<Eta>,
}

/// A job that another one waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreedBy {
    pub job: JobId,
    /// How many devices it leaves to the other job.
    pub n_devices: u32,
    /// When it ends, in the early and the late course.
    pub ends: [Option<Timestamp>; 2],
}

/// The simulated effect of a new job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imagined {
    pub eta: Option<Eta>,
    /// The jobs that would start noticeably later, the worst first.
    pub delays: Vec<Delay>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    pub job: JobId,
    pub by: Millis,
}

/// Forecasts the starts of the jobs of an excerpt.
#[must_use]
pub fn forecast(part: &ForecastInput, n_starts: usize, learnt: &Calibrator) -> Forecast {
    let bounds = Bounds { target: None, n_starts };
    let courses = Pace::ALL.map(|pace| SimulationResult::of(part, pace, &bounds));
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
    /// Returns the forecast of a waiting job; `None` if there is none.
    #[must_use]
    pub fn eta_of(&self, job: JobId) -> Option<Eta> {
        // A newer job may go before all of them.
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

/// Forecasts one job, with the jobs that it waits for.
#[must_use]
pub fn estimate(
    part: &ForecastInput,
    job: JobId,
    n_starts: usize,
    calibrator: &Calibrator,
) -> Estimate {
    if !part.covers(&part.world(), job) {
        return Estimate { is_out_of_reach: true, ..Estimate::default() };
    }
    let bounds = Bounds { target: Some(job), n_starts };
    let courses = Pace::ALL.map(|pace| SimulationResult::of(part, pace, &bounds));
    let eta = eta_of(part, &courses, job).map(|eta| calibrator.corrected(eta, part.now));
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
        estimate(&part, job, n_starts, calibrator).eta
    });
    Estimate {
        eta,
        without_deadline,
        is_out_of_reach: false,
        middle: start.map(|start| start.at),
        freed_by: freed_by.collect(),
    }
}

/// Simulates a job as if it were submitted now, after the jobs that prepare it.
#[must_use]
pub fn imagine(
    part: &ForecastInput,
    caller: &Caller,
    jobs: &[NewJob],
    lengths: &[Length],
    n_starts: usize,
    calibrator: &Calibrator,
) -> Imagined {
    let newcomer = Newcomer { caller, jobs, lengths };
    let with = Pace::ALL.map(|pace| SimulationResult::with(part, pace, &newcomer, n_starts));
    let Some(id) = with[1].1 else { return Imagined::default() };
    let courses = with.map(|(course, _)| course);
    // The job may also fit between jobs outside the excerpt, and would wait for them.
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
    let eta = eta_of(part, &courses, id).map(|eta| calibrator.corrected(eta, part.now));
    let bounds = Bounds { target: None, n_starts };
    let without = SimulationResult::of(part, Pace::Middle, &bounds);
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

/// Returns the three times of one job; `None` if it never starts within the known future.
fn eta_of(part: &ForecastInput, courses: &[SimulationResult; 3], job: JobId) -> Option<Eta> {
    let starts = courses.each_ref().map(|course| course.starts.get(&job));
    let never = |(course, start): (&SimulationResult, &Option<_>)| {
        start.is_none() && (course.is_whole || course.is_broken)
    };
    if courses.iter().zip(&starts).any(never) {
        return None;
    }
    // An earlier end may let another job go first, so an earlier course may start a job later than
    // a slower one does.
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
