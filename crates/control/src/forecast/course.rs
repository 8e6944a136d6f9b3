//! One simulated course: the state machine runs forward over the expected ends of jobs.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::TaskEnd;
use gpool_model::effect::Change;
use gpool_model::job::{ExitStatus, JobState, StopCause, Usage};
use gpool_model::{
    Basis, Caller, DeviceUuid, Effect, Event, JobId, MilliGpu, Millis, NewJob, Notice, Phase,
    TaskId, Timestamp,
};

use super::HORIZON;
use super::length::{Length, LengthSource, Pace};
use super::part::{ForecastInput, whole};
use crate::control::Control;
use crate::control::claims::is_claim;
use crate::control::known_ends::KnownEnds;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The simulation ends when this job has started.
    pub target: Option<JobId>,
    /// The simulation ends after this many starts.
    pub n_starts: usize,
}

/// When running jobs leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// At their expected ends, or after their grace when ordered to leave.
    InTime,
    /// At once when ordered to leave, and never otherwise: settles the present moment.
    OnOrder,
}

#[derive(Debug, Default)]
pub(super) struct SimulationResult {
    /// The first start of each job that had not started.
    pub starts: BTreeMap<JobId, Start>,
    /// When each job was first ordered to leave.
    pub stops: BTreeMap<JobId, Timestamp>,
    pub ends: BTreeMap<JobId, Timestamp>,
    /// Thousandths of GPUs times milliseconds that jobs held them, if that is measured.
    pub held: u128,
    /// How often jobs were evicted or paused for others.
    pub n_preempted: u64,
    /// The time that the simulation reached.
    pub reach: Timestamp,
    /// Whether the simulation ran to its end: a job that has not started then never will, as far as
    /// is known.
    pub is_whole: bool,
    /// A plan broke an invariant, or the scheduler panicked.
    pub is_broken: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Start {
    pub at: Timestamp,
    /// The basis of the ends before it.
    pub basis: Option<Basis>,
    /// Jobs that it waited for, with the number of devices that each left to it.
    pub freed_by: BTreeMap<JobId, u32>,
}

/// A new job, after the jobs that prepare it.
pub(super) struct Newcomer<'a> {
    pub caller: &'a Caller,
    pub jobs: &'a [NewJob],
    /// How long each of them will run.
    pub lengths: &'a [Length],
}

impl SimulationResult {
    const STEPS_MAX: usize = 12_000;

    /// Simulates a part; its jobs end at this pace.
    pub fn of(part: &ForecastInput, pace: Pace, bounds: &Bounds) -> Self {
        Runner::new(part, pace).run(bounds)
    }

    /// Simulates the part with one more job, and returns its ID unless it is refused.
    pub fn with(
        part: &ForecastInput,
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
    part: &'a ForecastInput,
    pace: Pace,
    leaving: Leaving,
    pub control: Control,
    pub newcomers: BTreeMap<JobId, Length>,
    /// Whether the GPUs that jobs hold are summed up, which takes a look at all of them each step.
    pub is_measured: bool,
    ends_by_time: BTreeSet<(Timestamp, JobId)>,
    end_by_job: BTreeMap<JobId, Timestamp>,
    /// Paused jobs, each with the time that it has left to run.
    paused: BTreeMap<JobId, Millis>,
    basis: Option<Basis>,
    /// The job that left each device last, and when.
    last_on: BTreeMap<DeviceUuid, (JobId, Timestamp)>,
    /// When jobs became pending that were not pending at first.
    ready_at: BTreeMap<JobId, Timestamp>,
    /// Jobs that wait for others to leave their claimed devices.
    claiming: BTreeSet<JobId>,
    /// Jobs that ended or paused at the present moment.
    left_last: Vec<JobId>,
    pub course: SimulationResult,
}

impl<'a> Runner<'a> {
    fn new(part: &'a ForecastInput, pace: Pace) -> Self {
        Self::leaving(part, pace, Leaving::InTime)
    }

    pub fn leaving(part: &'a ForecastInput, pace: Pace, leaving: Leaving) -> Self {
        let mut runner = Self {
            part,
            pace,
            leaving,
            control: Control::imagined(part.world(), part.now),
            newcomers: BTreeMap::new(),
            is_measured: false,
            ends_by_time: BTreeSet::new(),
            end_by_job: BTreeMap::new(),
            paused: BTreeMap::new(),
            basis: None,
            last_on: BTreeMap::new(),
            ready_at: BTreeMap::new(),
            claiming: BTreeSet::new(),
            left_last: Vec::new(),
            course: SimulationResult::default(),
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

    fn run(mut self, bounds: &Bounds) -> SimulationResult {
        self.follow(bounds, self.part.now.after(HORIZON));
        self.course
    }

    /// Simulates up to this time, or until a bound is reached.
    pub fn follow(&mut self, bounds: &Bounds, horizon: Timestamp) {
        let mut now = self.part.now;
        for _ in 0..SimulationResult::STEPS_MAX {
            self.step(now);
            let is_there = bounds.target.is_some_and(|id| self.course.starts.contains_key(&id));
            let is_enough = self.course.starts.len() >= bounds.n_starts;
            self.course.reach = now;
            if self.course.is_broken || is_there || is_enough {
                return;
            }
            let due = self.ends_by_time.first().map(|(at, _)| *at);
            let timer = self.control.next_timer().filter(|_| self.leaving == Leaving::InTime);
            let next = due.into_iter().chain(timer).min();
            match next {
                None => {
                    self.course.is_whole = true;
                    return;
                }
                Some(at) if at > horizon => {
                    self.measure(horizon.since(now));
                    self.course.reach = horizon;
                    return;
                }
                // Time always advances, so that work that is due at once causes no endless loop.
                Some(at) => {
                    let next = at.max(Timestamp::new(now.get().saturating_add(1)));
                    self.measure(next.since(now));
                    now = next;
                }
            }
        }
    }

    /// Adds what jobs hold for this time.
    fn measure(&mut self, span: Millis) {
        if self.is_measured {
            let held = self.control.world().holding().map(|row| row.job.gpus_held());
            let held = held.fold(MilliGpu::ZERO, MilliGpu::saturating_add);
            self.course.held += u128::from(held.get()) * u128::from(span.get());
        }
    }

    /// A job is pending. An array says it again when some of its elements end.
    fn is_ready(&mut self, job: JobId, now: Timestamp) {
        match self.control.world().array(job.number).filter(|row| row.job.id == job) {
            Some(_) => drop(self.ready_at.entry(job).or_insert(now)),
            None => drop(self.ready_at.insert(job, now)),
        }
    }

    fn step(&mut self, now: Timestamp) {
        self.control.now = now;
        self.left_last.clear();
        while let Some(&(at, id)) = self.ends_by_time.first().filter(|(at, _)| *at <= now) {
            self.ends_by_time.remove(&(at, id));
            self.end_by_job.remove(&id);
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
                }) => self.is_ready(job, now),
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
                | Effect::Readmit(_)
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

    /// Whether a job waits for others to leave its claimed devices.
    fn claims(&self, id: JobId) -> bool {
        self.control.world().job(id).is_some_and(|row| is_claim(row.job.phase.allocations()))
    }

    fn pause(&mut self, id: JobId, now: Timestamp) {
        let left = self.end_by_job.remove(&id).map(|due| {
            self.ends_by_time.remove(&(due, id));
            due.since(now)
        });
        // A job without an end was paused from the start.
        self.course.n_preempted += u64::from(left.is_some());
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
        // An array starts with its first element.
        self.course.starts.entry(whole(id)).or_insert_with(|| start.clone());
        // The first start counts, even if the job is evicted and starts again.
        self.course.starts.entry(id).or_insert(start);
    }

    /// Returns the jobs that had to end before this job starts now, with the number of devices that
    /// each left to it. A job that starts when no other ends waited for something else.
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
        // A job that ends now may free a quota or host resources, and no devices.
        if !self.left_last.iter().any(|job| freed_by.contains_key(job)) {
            freed_by = self.left_last.iter().map(|job| (*job, 0)).collect();
        }
        freed_by
    }

    /// Starts a job with allocations; it runs until its expected end.
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
            Leaving::OnOrder if self.control.world().job(id).is_some_and(told) => {
                self.end_at(id, now);
            }
            Leaving::OnOrder => {}
        }
    }

    fn end_at(&mut self, id: JobId, at: Timestamp) {
        if let Some(before) = self.end_by_job.insert(id, at) {
            self.ends_by_time.remove(&(before, id));
        }
        self.ends_by_time.insert((at, id));
    }

    /// Ends a job that is ordered to leave, at the end of its grace at the latest.
    fn stop(&mut self, id: JobId, now: Timestamp) {
        let Some(row) = self.control.world().job(id) else { return };
        self.course.stops.entry(id).or_insert(now);
        let is_evicted = |phase: &Phase| {
            matches!(phase, Phase::Stopping { cause: StopCause::TakenBack { .. }, .. })
        };
        self.course.n_preempted += u64::from(is_evicted(&row.job.phase));
        let leaves = match self.leaving {
            Leaving::InTime => now.after(Length::of(row, None, now).at(self.pace)),
            Leaving::OnOrder => now,
        };
        let due = self.end_by_job.get(&id).copied();
        self.end_at(id, due.map_or(leaves, |due| due.min(leaves)));
    }

    fn end(&mut self, id: JobId, now: Timestamp) {
        let Some(row) = self.control.world().job(id) else { return };
        // A job that was ordered to stop ends as stopped, and jobs that wait for its success do not
        // start.
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
            steps: gpool_model::Rare::default(),
        };
        for task in self.tasks(id) {
            // The end of one task may be the end of the job.
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
        // The known length belonged to an attempt that is over.
        let again = self.course.ends.get(&id).and_then(|_| self.control.world().job(id));
        if let Some(row) = again {
            let prediction = self.control.world().prediction(&row.spec);
            return Length::whole(row.spec.time_limit, row.spec.grace, prediction);
        }
        let of = |id| self.newcomers.get(&id).or_else(|| self.part.lengths.get(&id));
        let known = of(id).or_else(|| of(whole(id)));
        let unknown = || Length::exactly(Length::UNKNOWN, LengthSource::Elapsed);
        known.copied().unwrap_or_else(unknown)
    }
}
