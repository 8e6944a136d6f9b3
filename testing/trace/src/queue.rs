//! Measures waiting times: the real state machine runs the jobs of a trace in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::agent::TaskIs;
use gpool_model::{
    Event, Generation, JobId, MilliGpu, Millis, NodeName, Policy, TaskId, Timestamp,
};

use crate::cluster::{Cluster, Nodes};
pub use crate::coming::Terms;
use crate::coming::{Asking, Coming};
use crate::fleet::{Fleet, Start, Told, end, says};
use crate::foresight::Foresight;
use crate::jobs::TraceJob;
use crate::look::Look;
pub use crate::outcome::{Outcome, Played, Ran};
use crate::table::TraceError;

/// Jobs of this many devices are large.
pub const LARGE: u32 = 8;

/// Why a trace could not be played to its end.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A plan broke an invariant.
    #[error("a plan violates an invariant: {}", .0.join("; "))]
    Violation(Vec<String>),
    /// Jobs wait, and nothing will ever happen again.
    #[error("{n} jobs wait, and no event can start them")]
    Stuck {
        /// The number of waiting jobs.
        n: usize,
    },
}

/// A job that was submitted and has not ended.
#[derive(Debug)]
struct Live {
    owner: Arc<str>,
    before: Vec<Ran>,
    submitted_at: Timestamp,
    duration: Millis,
    gpus: MilliGpu,
    /// Whether it continues its work after an eviction.
    goes_on: bool,
    /// Its remaining run time.
    left: Millis,
    runs: Option<Run>,
}

/// A run of a job.
#[derive(Debug)]
struct Run {
    started_at: Timestamp,
    ends_at: Timestamp,
    tasks: Vec<(NodeName, TaskId, Generation)>,
    devices: Vec<(u32, u32)>,
    /// The amount of the devices that it has.
    gpus: MilliGpu,
}

/// After this many steps without an event, nothing will happen any more.
const IDLE_STEPS_MAX: u32 = 10_000;

/// Plays the jobs of a file on equal nodes; see [`play_on`].
///
/// # Errors
/// If the trace can't be read to its end, or the scheduler breaks an invariant.
pub fn play(
    jobs: impl IntoIterator<Item = Result<TraceJob, TraceError>>,
    nodes: Nodes,
    policy: Policy,
    terms: Terms,
    look: &mut Look<'_>,
) -> Result<Outcome, PlayError> {
    let mut asking = Asking::of(nodes);
    let jobs = jobs.into_iter().map(|job| job.map(|job| asking.for_job(job)));
    let outcome = play_on(Cluster::alike(nodes, policy), jobs, terms, look)?;
    match usize::try_from(outcome.n_stuck).unwrap_or(usize::MAX) {
        0 => Ok(outcome),
        n => Err(PlayError::Stuck { n }),
    }
}

/// Plays jobs on a cluster; calls `look` before each event.
///
/// # Errors
/// If the jobs can't be read to their end, or the scheduler breaks an invariant.
pub fn play_on(
    cluster: Cluster,
    jobs: impl IntoIterator<Item = Result<Coming, TraceError>>,
    terms: Terms,
    look: &mut Look<'_>,
) -> Result<Outcome, PlayError> {
    let mut player = Player::new(cluster, terms);
    let mut jobs = jobs.into_iter().peekable();
    let mut n_idle = 0;
    loop {
        let comes = match jobs.peek() {
            None => None,
            Some(Ok(job)) => Some(job.at),
            Some(Err(_)) => Some(player.now),
        };
        if comes.is_none() && player.live.is_empty() {
            return Ok(player.finish());
        }
        let ends = player.ends.first().map(|(at, _)| *at);
        n_idle = if comes.is_none() && ends.is_none() { n_idle + 1 } else { 0 };
        // A past timer that is still set would stop the time.
        let later = Timestamp::new(player.now.get() + 1);
        let timer = player.fleet.control.next_change().map(|at| at.max(later));
        let forecast = player.foresight.as_ref().map(|it| it.next.max(later));
        // Forecasts do not advance any job.
        let forecast = forecast.filter(|_| comes.is_some() || ends.is_some());
        let next = comes.into_iter().chain(ends).chain(timer).chain(forecast).min();
        let Some(now) = next.filter(|_| n_idle < IDLE_STEPS_MAX) else {
            return Ok(player.finish());
        };
        look(player.live.len(), now);
        let mut come = Vec::new();
        while comes == Some(now)
            && let Some(job) = jobs.next_if(|job| job.as_ref().map_or(true, |it| it.at == now))
        {
            come.push(job?);
        }
        player.pass(now, comes.is_some());
        player.happen(come)?;
        if let Some(foresight) = &mut player.foresight {
            foresight.look(player.fleet.control.world(), now);
        }
    }
}

struct Player {
    fleet: Fleet,
    terms: Terms,
    now: Timestamp,
    live: BTreeMap<JobId, Live>,
    ends: BTreeSet<(Timestamp, JobId)>,
    /// The amount of devices in use.
    in_use: MilliGpu,
    /// The integral of `in_use` over milliseconds.
    busy: u128,
    foresight: Option<Foresight>,
    outcome: Outcome,
}

impl Player {
    fn new(cluster: Cluster, terms: Terms) -> Self {
        let now = cluster.began;
        Self {
            fleet: Fleet::start(cluster),
            terms,
            now,
            live: BTreeMap::new(),
            ends: BTreeSet::new(),
            in_use: MilliGpu::ZERO,
            busy: 0,
            foresight: terms.forecast_every.map(|every| Foresight::new(every, now)),
            outcome: Outcome::default(),
        }
    }

    fn finish(mut self) -> Outcome {
        self.outcome.busy = self.busy / u128::from(MilliGpu::DEVICE.get());
        self.outcome.n_stuck = self.live.len() as u64;
        self.outcome
    }

    fn pass(&mut self, now: Timestamp, is_measured: bool) {
        if is_measured {
            self.busy += u128::from(self.in_use.get()) * u128::from(now.since(self.now).get());
        }
        self.now = now;
    }

    /// Submits jobs and ends due ones; then handles everything that follows at once.
    fn happen(&mut self, come: Vec<Coming>) -> Result<(), PlayError> {
        let mut events = Vec::new();
        while let Some((at, id)) = self.ends.first().copied().filter(|(at, _)| *at <= self.now) {
            self.ends.remove(&(at, id));
            events.extend(self.end(id));
        }
        let mut jobs = Vec::with_capacity(come.len());
        for coming in come {
            let coming = coming.under(self.terms);
            jobs.push(self.live_of(&coming));
            events.push(self.fleet.submission(coming.owner, coming.job));
        }
        if events.is_empty() {
            events.push(Event::TimerFired);
        }
        let mut stopped = Vec::new();
        while !events.is_empty() {
            let came = self.fleet.step(self.now, std::mem::take(&mut events));
            if !came.violations.is_empty() {
                return Err(PlayError::Violation(came.violations));
            }
            for (job, answer) in jobs.drain(..).zip(came.answers) {
                match answer {
                    Err(refusal) => {
                        self.outcome.n_refused += 1;
                        self.outcome.refusal.get_or_insert(refusal);
                    }
                    Ok(number) => self.come(JobId::single(number.unwrap_or_default().0), job),
                }
            }
            for told in came.told {
                if let Told::Stop(task) = &told {
                    stopped.push(task.job);
                }
                events.extend(self.obey(told));
            }
        }
        for id in stopped {
            self.cut(id);
        }
        Ok(())
    }

    fn live_of(&self, coming: &Coming) -> Live {
        Live {
            owner: Arc::clone(&coming.whose),
            before: Vec::new(),
            submitted_at: self.now,
            duration: coming.duration,
            gpus: coming.gpus(),
            goes_on: coming.goes_on(),
            left: coming.duration,
            runs: None,
        }
    }

    fn come(&mut self, id: JobId, job: Live) {
        let first = self.outcome.came.map_or(self.now, |(first, _)| first);
        self.outcome.came = Some((first, self.now));
        self.live.insert(id, job);
    }

    fn obey(&mut self, told: Told) -> Vec<Event> {
        match told {
            Told::Run(Start { node, task, generation, devices, gpus, .. }) => {
                let Some(live) = self.live.get_mut(&task.job) else { return Vec::new() };
                let foretold =
                    self.foresight.as_mut().and_then(|it| it.started(task.job, self.now));
                self.outcome.forecasts.extend(foretold);
                let run = live.runs.get_or_insert_with(|| {
                    let ends_at = self.now.after(live.left);
                    self.ends.insert((ends_at, task.job));
                    Run::new(self.now, ends_at)
                });
                self.in_use = self.in_use.saturating_add(gpus);
                run.gpus = run.gpus.saturating_add(gpus);
                let is = TaskIs::Running { pid: 1, started_at: run.started_at };
                let event = says(&node, task, generation, is);
                run.devices.extend(devices);
                run.tasks.push((node, task, generation));
                vec![event]
            }
            Told::Stop(task) => self.stop(task.job),
        }
    }

    /// Ends all tasks of a job that has done its work.
    fn end(&mut self, id: JobId) -> Vec<Event> {
        let Some(mut live) = self.live.remove(&id) else { return Vec::new() };
        let Some(run) = live.runs.take() else { return Vec::new() };
        self.in_use = self.in_use.saturating_sub(run.gpus);
        live.before.push(run.until(self.now));
        self.outcome.jobs.push(live.played(self.now));
        run.says_ended(self.now, false)
    }

    /// Ends all tasks of an evicted job; it will continue its work, or start again.
    fn stop(&mut self, id: JobId) -> Vec<Event> {
        let Some(live) = self.live.get_mut(&id) else { return Vec::new() };
        let Some(run) = live.runs.take() else { return Vec::new() };
        self.ends.remove(&(run.ends_at, id));
        self.in_use = self.in_use.saturating_sub(run.gpus);
        self.outcome.n_taken_back += 1;
        let ran = self.now.since(run.started_at);
        live.before.push(run.until(self.now));
        live.left = match live.goes_on {
            true => live.left.saturating_sub(ran).saturating_add(self.terms.restart),
            false => live.duration,
        };
        run.says_ended(self.now, true)
    }

    /// Handles an evicted job that was ended for good.
    fn cut(&mut self, id: JobId) {
        if self.fleet.control.world().job(id).is_some() {
            return;
        }
        let Some(mut live) = self.live.remove(&id) else { return };
        let spans = live.before.iter().map(|run| run.until.since(run.from));
        live.duration = spans.fold(Millis::ZERO, Millis::saturating_add);
        self.outcome.n_taken_back = self.outcome.n_taken_back.saturating_sub(1);
        self.outcome.n_cut += 1;
        self.outcome.jobs.push(live.played(self.now));
    }
}

impl Live {
    fn played(self, ended_at: Timestamp) -> Played {
        Played {
            owner: self.owner,
            runs: self.before,
            submitted_at: self.submitted_at,
            ended_at,
            duration: self.duration,
            gpus: self.gpus,
        }
    }
}

impl Run {
    fn new(started_at: Timestamp, ends_at: Timestamp) -> Self {
        let (tasks, devices) = (Vec::new(), Vec::new());
        Self { started_at, ends_at, tasks, devices, gpus: MilliGpu::ZERO }
    }

    fn until(&self, until: Timestamp) -> Ran {
        Ran { from: self.started_at, until, devices: self.devices.clone() }
    }

    fn says_ended(&self, now: Timestamp, stopped: bool) -> Vec<Event> {
        let said = |(node, task, generation): &(NodeName, TaskId, Generation)| {
            says(node, *task, *generation, end(now, self.started_at, stopped))
        };
        self.tasks.iter().map(said).collect()
    }
}
