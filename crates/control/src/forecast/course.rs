//! One course that things could take: the state machine is run forward over the ends that jobs are
//! expected to have.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::TaskEnd;
use gpool_model::effect::Change;
use gpool_model::job::{ExitStatus, JobState, Usage};
use gpool_model::{
    Basis, Caller, DeviceUuid, Effect, Event, JobId, Millis, NewJob, Notice, Phase, TaskId,
    Timestamp,
};

use super::HORIZON;
use super::length::{Length, Pace, Source};
use super::part::{Part, whole};
use crate::control::Control;
use crate::control::claims::is_claim;
use crate::control::submit::KnownEnds;

/// How far things are followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Nothing more is looked at once this job has started.
    pub target: Option<JobId>,
    /// So many jobs are started.
    pub n_starts: usize,
}

/// When jobs that run go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// When they are expected to end, and after their grace if they are told to.
    InTime,
    /// At once if they are told to, and never else: what would come of the present moment.
    IfTold,
}

/// How things went.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// When each job started that had not.
    pub starts: BTreeMap<JobId, Start>,
    /// When each job was first told to leave.
    pub stops: BTreeMap<JobId, Timestamp>,
    /// When each job ended.
    pub ends: BTreeMap<JobId, Timestamp>,
    /// As far as things were followed.
    pub reach: Timestamp,
    /// Whether all was followed that is going to happen: who has not started then never will, by
    /// what is known.
    pub is_whole: bool,
    /// The plan broke an invariant, or the scheduler panicked.
    pub is_broken: bool,
}

/// How a job started.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub at: Timestamp,
    /// What the ends before were taken from.
    pub basis: Option<Basis>,
    /// Jobs whose ends it waited for, with the devices that they left to it.
    pub freed_by: BTreeMap<JobId, u32>,
}

/// A job that is not there yet, after those that prepare it.
pub(super) struct Newcomer<'a> {
    pub caller: &'a Caller,
    pub jobs: &'a [NewJob],
    /// How long each of them will run.
    pub lengths: &'a [Length],
}

impl Course {
    /// More steps than this are not made.
    const STEPS_MAX: usize = 12_000;

    /// Follows what happens when jobs end at that pace.
    pub fn of(part: &Part, pace: Pace, bounds: &Bounds) -> Self {
        Runner::new(part, pace).run(bounds)
    }

    /// The same with one job more; that comes with its id, unless it is refused.
    pub fn with(
        part: &Part,
        pace: Pace,
        new: &Newcomer<'_>,
        n_starts: usize,
    ) -> (Self, Option<JobId>) {
        let mut runner = Runner::new(part, pace);
        let first = runner.control.world().cluster().last_job.next();
        let jobs = new.jobs.to_vec();
        let is_taken = runner.control.submit(new.caller, jobs, None, KnownEnds::NONE).is_ok();
        let numbers = first.0..;
        runner.newcomers = numbers.map(JobId::single).zip(new.lengths.iter().copied()).collect();
        let last = runner.newcomers.keys().next_back().copied();
        let course = runner.run(&Bounds { target: None, n_starts });
        (course, last.filter(|_| is_taken))
    }
}

pub(super) struct Runner<'a> {
    part: &'a Part,
    pace: Pace,
    leaving: Leaving,
    pub control: Control,
    pub newcomers: BTreeMap<JobId, Length>,
    due: BTreeSet<(Timestamp, JobId)>,
    due_of: BTreeMap<JobId, Timestamp>,
    /// Who is paused, with how long it has to run yet.
    paused: BTreeMap<JobId, Millis>,
    basis: Option<Basis>,
    /// The job that left each device last, and when.
    last_on: BTreeMap<DeviceUuid, (JobId, Timestamp)>,
    /// When jobs began to wait for room that did not at first.
    ready_at: BTreeMap<JobId, Timestamp>,
    /// Who waits until others have left what is to be his.
    claiming: BTreeSet<JobId>,
    /// Jobs that ended, or were paused, at the present moment.
    left_last: Vec<JobId>,
    pub course: Course,
}

impl<'a> Runner<'a> {
    fn new(part: &'a Part, pace: Pace) -> Self {
        Self::leaving(part, pace, Leaving::InTime)
    }

    pub fn leaving(part: &'a Part, pace: Pace, leaving: Leaving) -> Self {
        let mut runner = Self {
            part,
            pace,
            leaving,
            control: Control::imagined(part.world(), part.now),
            newcomers: BTreeMap::new(),
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            paused: BTreeMap::new(),
            basis: None,
            last_on: BTreeMap::new(),
            ready_at: BTreeMap::new(),
            claiming: BTreeSet::new(),
            left_last: Vec::new(),
            course: Course::default(),
        };
        let holding: Vec<JobId> = runner.control.world().holding().map(|row| row.job.id).collect();
        for id in holding {
            match runner.claims(id) {
                true => drop(runner.claiming.insert(id)),
                false => runner.begin(id, part.now),
            }
        }
        runner
    }

    fn run(mut self, bounds: &Bounds) -> Course {
        self.follow(bounds, self.part.now.after(HORIZON));
        self.course
    }

    /// Follows what happens until then, or until as much has happened as was asked for.
    pub fn follow(&mut self, bounds: &Bounds, horizon: Timestamp) {
        let mut now = self.part.now;
        for _ in 0..Course::STEPS_MAX {
            self.step(now);
            let is_there = bounds.target.is_some_and(|id| self.course.starts.contains_key(&id));
            let is_enough = self.course.starts.len() >= bounds.n_starts;
            self.course.reach = now;
            if self.course.is_broken || is_there || is_enough {
                return;
            }
            let due = self.due.first().map(|(at, _)| *at);
            let timer = self.control.next_timer().filter(|_| self.leaving == Leaving::InTime);
            let next = due.into_iter().chain(timer).min();
            match next {
                None => {
                    self.course.is_whole = true;
                    return;
                }
                Some(at) if at > horizon => {
                    self.course.reach = horizon;
                    return;
                }
                // Time always passes, so that what is due at once does not keep us here.
                Some(at) => now = at.max(Timestamp::new(now.get().saturating_add(1))),
            }
        }
    }

    fn step(&mut self, now: Timestamp) {
        self.control.now = now;
        self.left_last.clear();
        while let Some(&(at, id)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, id));
            self.due_of.remove(&id);
            self.end(id, now);
        }
        for effect in self.control.step(now, [Event::TimerFired]) {
            match effect {
                Effect::Publish(Notice {
                    change: Change::JobState { job, state: JobState::Starting, .. },
                    ..
                }) if self.claims(job) => drop(self.claiming.insert(job)),
                Effect::Publish(Notice {
                    change: Change::JobState { job, state: JobState::Starting, .. },
                    ..
                }) => self.start(job, now),
                Effect::Publish(Notice {
                    change: Change::JobState { job, state: JobState::Stopping, .. },
                    ..
                }) => self.stop(job, now),
                Effect::Publish(Notice {
                    change: Change::JobState { job, state: JobState::Pending, .. },
                    ..
                }) => drop(self.ready_at.insert(job, now)),
                Effect::Publish(Notice {
                    change: Change::JobState { job, state: JobState::Paused, .. },
                    ..
                }) => self.pause(job, now),
                Effect::Publish(Notice {
                    change: Change::JobState { job, state: JobState::Running, .. },
                    ..
                }) => self.resume(job, now),
                Effect::Alert(_) => self.course.is_broken = true,
                Effect::Commit(_)
                | Effect::Reply { .. }
                | Effect::Order { .. }
                | Effect::Deliver(_)
                | Effect::Publish(_) => {}
            }
        }
        let come: Vec<JobId> =
            self.claiming.iter().copied().filter(|id| !self.claims(*id)).collect();
        for id in come {
            self.claiming.remove(&id);
            let row = self.control.world().job(id);
            if row.is_some_and(|row| matches!(row.job.phase, Phase::Starting { .. })) {
                self.start(id, now);
            }
        }
    }

    /// Whether a job waits until others have left what is to be his.
    fn claims(&self, id: JobId) -> bool {
        self.control.world().job(id).is_some_and(|row| is_claim(row.job.phase.allocations()))
    }

    /// A job that is told to stop where it is does so at once.
    fn pause(&mut self, id: JobId, now: Timestamp) {
        let left = self.due_of.remove(&id).map(|due| {
            self.due.remove(&(due, id));
            due.since(now)
        });
        let left = left.unwrap_or_else(|| self.length(id).at(self.pace));
        self.paused.insert(id, left);
        self.course.stops.entry(id).or_insert(now);
        for slot in self.slots(id) {
            self.last_on.insert(slot, (id, now));
        }
        self.left_last.push(id);
        for task in self.tasks(id) {
            self.control.task_paused(task);
        }
    }

    /// One that was paused goes on.
    fn resume(&mut self, id: JobId, now: Timestamp) {
        let Some(left) = self.paused.remove(&id) else { return };
        self.note_start(id, now);
        if self.leaving == Leaving::InTime {
            self.end_at(id, now.after(left));
        }
    }

    fn slots(&self, id: JobId) -> Vec<DeviceUuid> {
        let row = self.control.world().job(id);
        let held = row.into_iter().flat_map(|row| row.job.phase.allocations());
        held.flat_map(|held| &held.slots).map(|slot| slot.device.clone()).collect()
    }

    fn start(&mut self, id: JobId, now: Timestamp) {
        self.note_start(id, now);
        self.begin(id, now);
    }

    fn note_start(&mut self, id: JobId, now: Timestamp) {
        let freed_by = self.freed_by(id);
        let start = Start { at: now, basis: self.basis, freed_by };
        // An array starts with the first of its elements.
        self.course.starts.entry(whole(id)).or_insert_with(|| start.clone());
        // Who is taken back and starts again started when it first did.
        self.course.starts.entry(id).or_insert(start);
    }

    /// The jobs whose ends let a job start that starts now, with the devices that they left to
    /// it. A job that starts at a moment at which no other ends waited for something else.
    fn freed_by(&self, id: JobId) -> BTreeMap<JobId, u32> {
        let mut freed_by = BTreeMap::new();
        if self.left_last.is_empty() {
            return freed_by;
        }
        let ready_at = [id, whole(id)].iter().find_map(|id| self.ready_at.get(id));
        let ready_at = ready_at.copied().unwrap_or(self.part.now);
        if let Some(row) = self.control.world().job(id) {
            let slots = row.job.phase.allocations().iter().flat_map(|held| &held.slots);
            let last_on = slots.filter_map(|slot| self.last_on.get(&slot.device));
            for (job, _) in last_on.filter(|(_, at)| *at >= ready_at) {
                *freed_by.entry(*job).or_default() += 1;
            }
        }
        // A job that ends now may free a quota, or host resources, and not the devices.
        if !self.left_last.iter().any(|job| freed_by.contains_key(job)) {
            freed_by = self.left_last.iter().map(|job| (*job, 0)).collect();
        }
        freed_by
    }

    /// A job that holds something runs from now on and ends in its time.
    fn begin(&mut self, id: JobId, now: Timestamp) {
        let is_paused = |row: &gpool_world::JobRow| matches!(row.job.phase, Phase::Paused { .. });
        if self.control.world().job(id).is_some_and(is_paused) {
            return self.pause(id, now);
        }
        for task in self.tasks(id) {
            self.control.task_started(task, now);
        }
        let told = |row: &gpool_world::JobRow| matches!(row.job.phase, Phase::Stopping { .. });
        match self.leaving {
            Leaving::InTime => self.end_at(id, now.after(self.length(id).at(self.pace))),
            Leaving::IfTold if self.control.world().job(id).is_some_and(told) => {
                self.end_at(id, now);
            }
            Leaving::IfTold => {}
        }
    }

    fn end_at(&mut self, id: JobId, at: Timestamp) {
        if let Some(before) = self.due_of.insert(id, at) {
            self.due.remove(&(before, id));
        }
        self.due.insert((at, id));
    }

    /// A job that is told to leave is gone when its grace is over, if not before.
    fn stop(&mut self, id: JobId, now: Timestamp) {
        let Some(row) = self.control.world().job(id) else { return };
        self.course.stops.entry(id).or_insert(now);
        let leaves = match self.leaving {
            Leaving::InTime => now.after(Length::of(row, None, now).at(self.pace)),
            Leaving::IfTold => now,
        };
        let due = self.due_of.get(&id).copied();
        self.end_at(id, due.map_or(leaves, |due| due.min(leaves)));
    }

    fn end(&mut self, id: JobId, now: Timestamp) {
        let Some(row) = self.control.world().job(id) else { return };
        // Who was asked to stop ends so, and whoever waits for a success does not get it.
        let stopped = matches!(row.job.phase, Phase::Stopping { .. });
        for slot in row.job.phase.allocations().iter().flat_map(|held| &held.slots) {
            self.last_on.insert(slot.device.clone(), (id, now));
        }
        let basis = self.length(id).source.basis();
        self.basis = Some(self.basis.map_or(basis, |before| before.and(basis)));
        self.course.ends.insert(id, now);
        self.left_last.push(id);
        let end = TaskEnd {
            started_at: None,
            ended_at: now,
            exit: Some(ExitStatus::Code(0)),
            cause: None,
            stopped,
            usage: Usage::default(),
        };
        for task in self.tasks(id) {
            // The end of one task may be that of the job.
            if self.control.world().job(id).is_some() {
                self.control.task_ended(task, &end);
            }
        }
    }

    fn tasks(&self, id: JobId) -> Vec<TaskId> {
        let row = self.control.world().job(id);
        let held = row.into_iter().flat_map(|row| row.job.phase.allocations());
        held.map(|allocation| allocation.task).collect()
    }

    fn length(&self, id: JobId) -> Length {
        // What was known of it was known of an attempt that is over.
        let again = self.course.ends.get(&id).and_then(|_| self.control.world().job(id));
        if let Some(row) = again {
            let prediction = self.control.world().prediction(&row.spec);
            return Length::whole(row.spec.time_limit, row.spec.grace, prediction);
        }
        let of = |id| self.newcomers.get(&id).or_else(|| self.part.lengths.get(&id));
        let known = of(id).or_else(|| of(whole(id)));
        let unknown = || Length::exactly(Length::UNKNOWN, Source::Elapsed);
        known.copied().unwrap_or_else(unknown)
    }
}
