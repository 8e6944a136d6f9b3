//! How long jobs wait: a trace of jobs is played by the state machine that runs jobs, in virtual
//! time, on a cluster of nodes that are alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::agent::TaskIs;
use gpool_model::{
    Event, Exit, Generation, JobId, Millis, NodeName, Policy, Refusal, TaskId, Timestamp,
};

use crate::fleet::{Fleet, Nodes, Told, end, new_job, number_of, says};
use crate::foresight::{Foresight, Foretold};
use crate::jobs::TraceJob;
use crate::scene::{Look, Scene, Seen};
use crate::table::TraceError;

/// When a trace begins: not at the very first moment there is.
pub(crate) const EPOCH: u64 = 1_000_000;
/// Jobs of so many devices are large.
pub const LARGE: u32 = 8;

/// What is known of jobs, and what it costs to take something back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Whether it is known of each job how long it will run.
    pub are_ends_known: bool,
    /// Whether jobs may be taken back, and go on later from where they were.
    pub are_preemptible: bool,
    /// How much of what it did a job has to do again each time that it was taken back.
    pub restart: Millis,
    /// How often it is forecast when those will start that wait, if at all.
    pub forecast_every: Option<Millis>,
}

/// Why a trace could not be played to its end.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// It could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A plan broke an invariant.
    #[error("a plan broke an invariant: {}", .0.join("; "))]
    Violation(Vec<String>),
    /// Jobs wait and nothing will ever happen again.
    #[error("{n} jobs wait and nothing goes on")]
    Stuck {
        /// How many.
        n: usize,
    },
}

/// A run of a job, or the part of it until it was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// When it started.
    pub from: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// Its devices: number of the node, and index there.
    pub devices: Vec<(u32, u32)>,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Whose it was.
    pub owner: Arc<str>,
    /// All of its runs.
    pub runs: Vec<Ran>,
    /// When it came.
    pub submitted_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How long it ran, without what it had to do again.
    pub duration: Millis,
    /// Its devices.
    pub n_gpus: u32,
}

impl Played {
    /// How long it did not run since it came.
    #[must_use]
    pub fn wait(&self) -> Millis {
        self.ended_at.since(self.submitted_at).saturating_sub(self.duration)
    }
}

/// What came of a trace.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Of each job, in the order in which they ended.
    pub jobs: Vec<Played>,
    /// How many were refused, and why the first one was.
    pub n_refused: u64,
    /// Why.
    pub refusal: Option<Refusal>,
    /// How often a job was taken back.
    pub n_taken_back: u64,
    /// Device-milliseconds given out until the last job came.
    pub busy: u128,
    /// When the first and the last job came.
    pub came: Option<(Timestamp, Timestamp)>,
    /// What was forecast first of each job that waited then, in the order in which they started.
    pub forecasts: Vec<Foretold>,
}

/// A job that has come and not ended.
#[derive(Debug)]
struct Live {
    owner: Arc<str>,
    before: Vec<Ran>,
    submitted_at: Timestamp,
    duration: Millis,
    n_gpus: u32,
    /// What it has to do yet.
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
}

/// With nothing but time passing so often, nothing will happen any more.
const IDLE_STEPS_MAX: u32 = 10_000;

/// Plays jobs on a cluster; `look` sees it each time before something happens.
///
/// # Errors
/// The trace can't be read to its end, or what the scheduler does makes no sense.
pub fn play(
    jobs: impl IntoIterator<Item = Result<TraceJob, TraceError>>,
    nodes: Nodes,
    policy: Policy,
    terms: Terms,
    look: &mut Look<'_>,
) -> Result<Outcome, PlayError> {
    let mut player = Player::new(nodes, policy, terms);
    let mut jobs = jobs.into_iter().peekable();
    let mut n_idle = 0;
    loop {
        let comes = match jobs.peek() {
            None => None,
            Some(Ok(job)) => Some(time_of(job)),
            Some(Err(_)) => Some(player.now),
        };
        if comes.is_none() && player.live.is_empty() {
            return Ok(player.outcome);
        }
        let ends = player.ends.first().map(|(at, _)| *at);
        n_idle = if comes.is_none() && ends.is_none() { n_idle + 1 } else { 0 };
        // What was due before and is still there would keep us here.
        let later = Timestamp::new(player.now.get() + 1);
        let timer = player.fleet.control.next_change().map(|at| at.max(later));
        let forecast = player.foresight.as_ref().map(|it| it.next.max(later));
        // Forecasts bring nobody forward.
        let forecast = forecast.filter(|_| comes.is_some() || ends.is_some());
        let next = comes.into_iter().chain(ends).chain(timer).chain(forecast).min();
        let Some(now) = next.filter(|_| n_idle < IDLE_STEPS_MAX) else {
            return Err(PlayError::Stuck { n: player.live.len() });
        };
        look(&player, now);
        let mut come = Vec::new();
        while comes == Some(now)
            && let Some(job) =
                jobs.next_if(|job| job.as_ref().map_or(true, |it| time_of(it) == now))
        {
            come.push(job?);
        }
        player.pass(now, comes.is_some());
        player.happen(&come)?;
        if let Some(foresight) = &mut player.foresight {
            foresight.look(player.fleet.control.world(), now);
        }
    }
}

/// When a job comes, in virtual time.
#[must_use]
pub fn time_of(job: &TraceJob) -> Timestamp {
    Timestamp::new(EPOCH.saturating_add(job.submit_s.saturating_mul(1000)))
}

struct Player {
    fleet: Fleet,
    nodes: Nodes,
    terms: Terms,
    now: Timestamp,
    live: BTreeMap<JobId, Live>,
    ends: BTreeSet<(Timestamp, JobId)>,
    /// Devices that run something.
    n_busy: u64,
    foresight: Option<Foresight>,
    outcome: Outcome,
}

impl Player {
    fn new(nodes: Nodes, policy: Policy, terms: Terms) -> Self {
        let now = Timestamp::new(EPOCH);
        Self {
            fleet: Fleet::new(nodes, policy, now),
            nodes,
            terms,
            now,
            live: BTreeMap::new(),
            ends: BTreeSet::new(),
            n_busy: 0,
            foresight: terms.forecast_every.map(|every| Foresight::new(every, now)),
            outcome: Outcome::default(),
        }
    }

    fn pass(&mut self, now: Timestamp, is_measured: bool) {
        if is_measured {
            let area = u128::from(self.n_busy) * u128::from(now.since(self.now).get());
            self.outcome.busy += area;
        }
        self.now = now;
    }

    /// Lets jobs come, and those end whose time it is; then whatever follows at once.
    fn happen(&mut self, come: &[TraceJob]) -> Result<(), PlayError> {
        let mut events = Vec::new();
        while let Some((at, id)) = self.ends.first().copied().filter(|(at, _)| *at <= self.now) {
            self.ends.remove(&(at, id));
            events.extend(self.end(id));
        }
        let mut jobs = come.iter().collect::<Vec<_>>();
        let first = self.fleet.control.world().cluster().last_job;
        for job in &jobs {
            let (each, n_nodes) = self.parts(job.n_gpus);
            let duration = Millis::new(job.duration_s.saturating_mul(1000));
            let mut new = new_job(each, n_nodes, self.terms.are_ends_known.then_some(duration));
            if self.terms.are_preemptible {
                new.life.preemptible = Some(true);
                new.life.exits = BTreeSet::from([Exit::Checkpoint]).into();
            }
            events.push(self.fleet.submission(&job.owner, new));
        }
        if events.is_empty() {
            events.push(Event::TimerFired);
        }
        let mut number = first;
        while !events.is_empty() {
            let came = self.fleet.step(self.now, std::mem::take(&mut events));
            if !came.violations.is_empty() {
                return Err(PlayError::Violation(came.violations));
            }
            for (job, refused) in jobs.drain(..).zip(came.refused) {
                match refused {
                    Some(refusal) => {
                        self.outcome.n_refused += 1;
                        self.outcome.refusal.get_or_insert(refusal);
                    }
                    None => {
                        number = number.next();
                        self.come(JobId::single(number.0), job);
                    }
                }
            }
            for told in came.told {
                events.extend(self.obey(told));
            }
        }
        Ok(())
    }

    /// Devices of each node, and how many nodes: those that do not fit on one have whole ones, or
    /// as many of each as divides them.
    fn parts(&self, n_gpus: u32) -> (u32, u32) {
        let most = self.nodes.n_gpus.max(1);
        let n_nodes = (n_gpus.div_ceil(most)..=n_gpus).find(|n| n_gpus.is_multiple_of(*n));
        match n_nodes {
            Some(n_nodes) if n_gpus > most => (n_gpus / n_nodes, n_nodes),
            Some(_) | None => (n_gpus, 1),
        }
    }

    fn come(&mut self, id: JobId, job: &TraceJob) {
        let duration = Millis::new(job.duration_s.saturating_mul(1000));
        let first = self.outcome.came.map_or(self.now, |(first, _)| first);
        self.outcome.came = Some((first, self.now));
        let live = Live {
            owner: Arc::clone(&job.owner),
            before: Vec::new(),
            submitted_at: self.now,
            duration,
            n_gpus: job.n_gpus,
            left: duration,
            runs: None,
        };
        self.live.insert(id, live);
    }

    fn obey(&mut self, told: Told) -> Vec<Event> {
        match told {
            Told::Run(node, task, generation, devices) => {
                let Some(live) = self.live.get_mut(&task.job) else { return Vec::new() };
                let foretold =
                    self.foresight.as_mut().and_then(|it| it.started(task.job, self.now));
                self.outcome.forecasts.extend(foretold);
                let run = live.runs.get_or_insert_with(|| {
                    let ends_at = self.now.after(live.left);
                    self.ends.insert((ends_at, task.job));
                    self.n_busy += u64::from(live.n_gpus);
                    Run { started_at: self.now, ends_at, tasks: Vec::new(), devices: Vec::new() }
                });
                let is = TaskIs::Running { pid: 1, started_at: run.started_at };
                let event = says(&node, task, generation, is);
                let number = number_of(&node);
                run.devices.extend(devices.into_iter().map(|index| (number, index)));
                run.tasks.push((node, task, generation));
                vec![event]
            }
            Told::Stop(task) => self.stop(task.job),
        }
    }

    /// All tasks of a job end, since its work is done.
    fn end(&mut self, id: JobId) -> Vec<Event> {
        let Some(mut live) = self.live.remove(&id) else { return Vec::new() };
        let Some(run) = live.runs else { return Vec::new() };
        self.n_busy -= u64::from(live.n_gpus);
        live.before.push(run.until(self.now));
        self.outcome.jobs.push(Played {
            owner: live.owner,
            runs: live.before,
            submitted_at: live.submitted_at,
            ended_at: self.now,
            duration: live.duration,
            n_gpus: live.n_gpus,
        });
        run.says_ended(self.now, false)
    }

    /// All tasks of a job end, since it was told to leave; it will go on where it was.
    fn stop(&mut self, id: JobId) -> Vec<Event> {
        let Some(live) = self.live.get_mut(&id) else { return Vec::new() };
        let Some(run) = live.runs.take() else { return Vec::new() };
        self.ends.remove(&(run.ends_at, id));
        self.n_busy -= u64::from(live.n_gpus);
        self.outcome.n_taken_back += 1;
        let ran = self.now.since(run.started_at);
        live.before.push(run.until(self.now));
        live.left = live.left.saturating_sub(ran).saturating_add(self.terms.restart);
        run.says_ended(self.now, true)
    }
}

impl Scene for Player {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn n_live(&self) -> usize {
        self.live.len()
    }

    fn live(&self) -> Box<dyn Iterator<Item = Seen<'_>> + '_> {
        Box::new(self.live.values().map(|job| Seen {
            owner: &job.owner,
            n_gpus: job.n_gpus,
            devices: job.runs.as_ref().map(|run| &run.devices[..]),
        }))
    }

    fn ended(&self) -> &[Played] {
        &self.outcome.jobs
    }
}

impl Run {
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
