//! The lives of jobs as durable commits show them. Each change of state goes to the counters of
//! `/metrics` and, if an admin wants traces, to their sender. The threads that write the store do
//! this work, so that it takes no time of the core.

pub mod settings;
mod state;
pub mod tally;
pub mod trace;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gpool_model::effect::Commit;
use gpool_model::event::Journaled;
use gpool_model::record::Record;
use gpool_model::{Decision, JobId, JobSpec, NodeName, PoolName, Revision, TakenBack};
use gpool_store::CommitError;
use gpool_world::World;

use self::settings::Telemetry;
use self::state::Now;
use self::tally::Tally;
use self::trace::Tracer;
use crate::now;

/// The present state of each job, and the changes that are not durable yet.
pub struct Lives {
    state: Mutex<LivesState>,
    pub tally: Tally,
    /// The sender of traces, if they are wanted.
    pub tracer: Option<Tracer>,
}

#[derive(Default)]
struct LivesState {
    jobs: BTreeMap<JobId, Life>,
    pools: BTreeMap<NodeName, PoolName>,
    // Invariant: revisions only grow from front to back.
    waiting: VecDeque<CommitChanges>,
}

struct Life {
    spec: Arc<JobSpec>,
    now: Now,
}

struct CommitChanges {
    revision: Revision,
    handed_over: Instant,
    changes: Vec<LifeChange>,
}

enum LifeChange {
    Pool(NodeName, PoolName),
    Spec(Arc<JobSpec>),
    Job(JobId, Now),
    Ended(JobId, Arc<JobSpec>, Now),
    Decided(&'static str),
    Evicted(TakenBack),
}

/// A job that goes from one state to another.
pub struct Passage<'a> {
    pub job: JobId,
    pub spec: &'a JobSpec,
    pub from: Option<&'a Now>,
    pub to: &'a Now,
    /// The pool of its first node, if it has one.
    pub pool: Option<&'a PoolName>,
    /// The revision of the commit with this change.
    pub revision: Revision,
}

impl Lives {
    /// Starts without jobs; [`Self::reset`] brings them.
    pub fn new(settings: &Telemetry) -> std::io::Result<Arc<Self>> {
        let tracer = settings.traces.as_ref().map(Tracer::spawn).transpose()?;
        let tally = Tally::new(settings.detail);
        Ok(Arc::new(Self { state: Mutex::default(), tally, tracer }))
    }

    fn state(&self) -> MutexGuard<'_, LivesState> {
        // A panic in between leaves at most one job out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the jobs of a durable state.
    pub fn reset(&self, world: &World) {
        let at = now();
        let life = |row: &gpool_world::JobRow| {
            let life = Life { spec: Arc::clone(&row.spec), now: Now::of(&row.job, at) };
            (row.job.id, life)
        };
        let jobs = world.jobs().values().map(|row| life(row)).collect();
        let pool = |row: &gpool_world::NodeRow| (row.node.name.clone(), row.node.pool.clone());
        let pools = world.nodes().iter().map(pool).collect();
        *self.state() = LivesState { jobs, pools, waiting: VecDeque::new() };
    }

    /// Notes the changes of a commit on its way to the store.
    pub fn handed_over(&self, commit: &Commit) {
        let changes = changes(commit);
        let waiting =
            CommitChanges { revision: commit.revision, handed_over: Instant::now(), changes };
        self.state().waiting.push_back(waiting);
    }

    /// Returns the receiver of the store's results, which passes them on.
    pub fn before(
        self: &Arc<Self>,
        pass_on: impl Fn(Result<Revision, CommitError>) + Send + 'static,
    ) -> Box<dyn Fn(Result<Revision, CommitError>) + Send> {
        let lives = Arc::clone(self);
        Box::new(move |result| {
            if let Ok(revision) = &result {
                lives.durable(*revision);
            }
            pass_on(result);
        })
    }

    fn durable(&self, revision: Revision) {
        let mut state = self.state();
        while let Some(waiting) = state.waiting.pop_front_if(|it| it.revision <= revision) {
            self.tally.committed(waiting.handed_over.elapsed());
            for change in waiting.changes {
                self.apply(&mut state, waiting.revision, change);
            }
        }
    }

    fn apply(&self, state: &mut LivesState, at: Revision, change: LifeChange) {
        match change {
            LifeChange::Pool(node, pool) => drop(state.pools.insert(node, pool)),
            LifeChange::Spec(spec) => {
                if let Some(life) = state.jobs.get_mut(&spec.id) {
                    life.spec = spec;
                } else {
                    let now = Now::submitted(spec.submitted_at);
                    state.jobs.insert(spec.id, Life { spec, now });
                }
            }
            LifeChange::Job(id, to) => {
                let array = JobId { element: None, ..id };
                let before = state.jobs.get(&id).or_else(|| state.jobs.get(&array));
                let Some(Life { spec, now: from }) = before else { return };
                let spec = Arc::clone(spec);
                if from.is_other(&to) || !state.jobs.contains_key(&id) {
                    self.passed(state, at, (id, &spec), Some(from), &to);
                    state.jobs.insert(id, Life { spec, now: to });
                }
            }
            LifeChange::Ended(id, spec, to) => {
                let mut before = state.jobs.remove(&id).map(|it| it.now);
                let running = before.as_ref().and_then(|from| from.running_before(&to));
                if let Some(running) = running {
                    self.passed(state, at, (id, &spec), before.as_ref(), &running);
                    before = Some(running);
                }
                self.passed(state, at, (id, &spec), before.as_ref(), &to);
            }
            LifeChange::Decided(kind) => self.tally.decided(kind),
            LifeChange::Evicted(why) => self.tally.evicted(why),
        }
    }

    fn passed(
        &self,
        state: &LivesState,
        revision: Revision,
        (job, spec): (JobId, &JobSpec),
        from: Option<&Now>,
        to: &Now,
    ) {
        let pool = to.node.as_ref().and_then(|node| state.pools.get(node));
        let passage = Passage { job, spec, from, to, pool, revision };
        self.tally.passed(&passage);
        if let Some(tracer) = &self.tracer {
            tracer.passed(&passage);
        }
    }
}

/// The changes of a commit that concern jobs. An ended job is not among its changed ones.
fn changes(commit: &Commit) -> Vec<LifeChange> {
    let at = commit.journal.last().map_or_else(now, |entry| entry.time);
    let mut changes = Vec::new();
    // Specs first: a new job needs its own.
    let records = || commit.records.iter().filter_map(|change| change.value.as_ref());
    for record in records() {
        if let Record::Node(node) = record {
            changes.push(LifeChange::Pool(node.name.clone(), node.pool.clone()));
        }
        if let Record::JobSpec(spec) = record {
            changes.push(LifeChange::Spec(Arc::clone(spec)));
        }
    }
    for record in records() {
        if let Record::Job(job) = record {
            changes.push(LifeChange::Job(job.id, Now::of(job, at)));
        }
    }
    for ended in &commit.ended {
        let now = Now::of(&ended.job, at);
        changes.push(LifeChange::Ended(ended.id(), Arc::clone(&ended.spec), now));
    }
    for entry in &commit.journal {
        if let Journaled::Planned { decisions, .. } = &entry.entry {
            changes.extend(decisions.iter().flat_map(decided));
        }
    }
    changes
}

fn decided(decision: &Decision) -> Vec<LifeChange> {
    match decision {
        Decision::Start { .. } => vec![LifeChange::Decided("start")],
        Decision::Resume { .. } => vec![LifeChange::Decided("resume")],
        Decision::Evict { why, .. } => {
            vec![LifeChange::Decided("evict"), LifeChange::Evicted(*why)]
        }
    }
}
