//! A cluster to which things happen one after another, with the plan of each cycle carried out at
//! once: what the state machine does, without agents, commits and permissions.

mod asked;
mod grow;
mod take_back;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use gpool_model::device::Mig;
use gpool_model::job::{EndCause, Holder, JobEnd, StopCause, Usage};
use gpool_model::{
    Allocation, AllocationState, Bytes, Decision, Dependency, DependencyKind, DeviceHealth,
    DeviceProcess, DeviceStrategy, Displace, Drain, Gang, GpuRequest, Job, JobId, JobNumber,
    JobRequest, MilliCpu, Millis, Node, Outcome, Phase, Plan, ProjectName, TaskId, Timestamp,
};
use gpool_sched::Workspace;
use gpool_world::{JobRow, Snapshot, World};

use crate::chosen;
use crate::gang::{courses, gang_text};
use crate::reader::owner;
use crate::reserve_step::ReserveSeed;
use crate::situation::{Situation, bare_spec};

/// One thing that happens. Jobs, nodes and devices are picked by a number that is taken modulo
/// how many there are to pick from, so that every step means something in every cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A job is submitted.
    Submit(JobSeed),
    /// One of the jobs that hold something ends.
    End(u32, Outcome),
    /// One of those that were told to leave, or to stop where they are, has done so.
    Leave(u32),
    /// Somebody cancels a job; one that runs goes on until it ends.
    Cancel(u32),
    /// Somebody holds a job that waits.
    Hold(u32),
    /// Somebody releases a job that is held.
    Release(u32),
    /// A job that holds something goes back to the queue, for its next attempt.
    Requeue(u32),
    /// Something becomes of a device: node, device, what.
    Device(u32, u32, DeviceChange),
    /// The agent of a node goes away or comes back.
    Connect(u32, bool),
    /// An admin empties a node, or no longer does.
    Drain(u32, bool),
    /// An admin keeps a device or a node for somebody.
    Reserve(ReserveSeed),
    /// An admin ends a reservation.
    Unreserve(u32),
    /// An admin changes how devices are chosen.
    Strategy(DeviceStrategy),
    /// Time passes.
    Pass(Millis),
}

/// What becomes of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChange {
    /// It is as new.
    Mend,
    /// It reports a fault.
    Break,
    /// Somebody else uses it.
    Intrude,
    /// An admin keeps it from new work.
    Forbid,
    /// It is divided into instances.
    Divide,
    /// An admin empties it.
    Drain,
}

impl DeviceChange {
    /// Changes a device of a node.
    ///
    /// # Panics
    /// If the node has no device at that position.
    pub fn apply(self, node: &mut Node, device_ix: usize, now: Timestamp) {
        let all: BTreeSet<_> = node.devices.iter().map(|device| device.uuid.clone()).collect();
        let has_instances = {
            let parent = node.devices[device_ix].index;
            node.devices.iter().any(|it| it.instance.as_ref().is_some_and(|it| it.parent == parent))
        };
        let device = &mut node.devices[device_ix];
        match self {
            Self::Mend => {
                device.health = DeviceHealth::Healthy;
                device.unmanaged.clear();
                device.mig = device.mig.filter(|_| has_instances);
                node.device_drains.remove(&device.uuid);
                if let Some(allowed) = &mut node.allowed {
                    allowed.insert(device.uuid.clone());
                }
            }
            Self::Break => {
                device.health = DeviceHealth::Unhealthy { why: "Xid 79".to_owned() };
            }
            Self::Intrude => device.unmanaged.push(DeviceProcess {
                pid: 4711,
                user: None,
                name: None,
                memory: None,
                seen_since: now,
            }),
            Self::Forbid => {
                node.allowed.get_or_insert(all).remove(&device.uuid);
            }
            Self::Divide if device.instance.is_some() => {}
            Self::Divide => device.mig = Some(Mig { enabled: true }),
            Self::Drain => drop(node.device_drains.insert(device.uuid.clone(), drain(now))),
        }
    }
}

/// What is random of a job.
#[derive(Clone, PartialEq, Eq)]
pub struct JobSeed {
    /// GPUs.
    pub gpus: GpuRequest,
    /// Cores.
    pub cpus: Option<MilliCpu>,
    /// Host memory.
    pub memory: Option<Bytes>,
    /// How many tasks.
    pub gang: Gang,
    /// Time limit.
    pub limit: Option<Millis>,
    /// Priority.
    pub priority: i32,
    /// How far the clock was behind when it was submitted, so that ages and ids disagree.
    pub behind: Millis,
    /// Whether it is submitted held.
    pub is_held: bool,
    /// The job that it waits for, picked from those that are there.
    pub after: Option<(u32, DependencyKind)>,
    /// Who is charged, picked from the projects without others below them.
    pub project: u32,
    /// Whether it may be taken back.
    pub is_preemptible: bool,
}

impl fmt::Debug for JobSeed {
    /// In one line, without what is not asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.gpus, gang_text(self.gang))?;
        if let Some(cpus) = self.cpus {
            write!(f, " cpus {cpus}")?;
        }
        if let Some(memory) = self.memory {
            write!(f, " mem {memory}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, " limit {limit}")?;
        }
        if self.priority != 0 {
            write!(f, " priority {}", self.priority)?;
        }
        if !self.behind.is_zero() {
            write!(f, " behind {}", self.behind)?;
        }
        if self.is_held {
            f.write_str(" held")?;
        }
        if self.is_preemptible {
            f.write_str(" preemptible")?;
        }
        write!(f, " project {}", self.project)?;
        match self.after {
            Some((pick, kind)) => write!(f, " after {kind:?} {pick}"),
            None => Ok(()),
        }
    }
}

/// A world with the moment and the scheduler's memory.
#[derive(Debug)]
pub struct Cluster {
    world: World,
    now: Timestamp,
    workspace: Workspace,
}

impl Cluster {
    /// A situation, about to be changed.
    #[must_use]
    pub fn of(situation: &Situation) -> Self {
        let workspace = Workspace::default();
        Self { world: situation.world(), now: situation.now, workspace }
    }

    /// The state at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { world: &self.world, now: self.now }
    }

    /// The state, to take its changes.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Lets one thing happen.
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Submit(seed) => self.submit(seed),
            Step::End(pick, outcome) => {
                let holds = |row: &JobRow| !row.job.phase.allocations().is_empty();
                if let Some(job) = self.pick(*pick, holds) {
                    self.end(job, *outcome);
                }
            }
            Step::Leave(pick) => {
                if let Some(job) = self.pick(*pick, take_back::leaves) {
                    self.end(job, Outcome::Lost);
                }
            }
            Step::Cancel(pick) => self.cancel(*pick),
            Step::Hold(pick) => self.hold(*pick),
            Step::Release(pick) => {
                let is_held = |row: &JobRow| matches!(row.job.phase, Phase::Held { .. });
                if let Some(mut job) = self.pick(*pick, is_held) {
                    job.phase = self.ready(job.id);
                    self.put(job);
                }
            }
            Step::Requeue(pick) => {
                let holds = |row: &JobRow| !row.job.phase.allocations().is_empty();
                if let Some(mut job) = self.pick(*pick, holds) {
                    self.begin_again(&mut job);
                    job.phase = Phase::Pending { since: self.now };
                    self.put(job);
                }
            }
            Step::Device(node, device, change) => self.device(*node, *device, *change),
            Step::Connect(node, connected) => {
                if let Some(node_ix) = pick(*node, self.world.nodes().len()) {
                    let mut node = self.world.nodes()[node_ix].node.clone();
                    node.connected = *connected;
                    self.world.put_node(node);
                }
            }
            Step::Drain(node, is_drained) => {
                if let Some(node_ix) = pick(*node, self.world.nodes().len()) {
                    let mut node = self.world.nodes()[node_ix].node.clone();
                    node.drain = is_drained.then(|| drain(self.now));
                    self.world.put_node(node);
                }
            }
            Step::Reserve(seed) => self.reserve(seed),
            Step::Unreserve(number) => {
                let names: Vec<_> = self.world.reservations().keys().cloned().collect();
                if let Some(ix) = pick(*number, names.len()) {
                    self.world.remove_reservation(&names[ix]);
                }
            }
            Step::Strategy(strategy) => {
                let mut policy = self.world.policy().clone();
                policy.device_strategy = *strategy;
                self.world.put_policy(policy);
            }
            Step::Pass(length) => self.now = self.now.after(*length),
        }
        self.follow_up();
    }

    /// What follows by itself: claims are met, and what waited for a moment is due.
    fn follow_up(&mut self) {
        self.come_into_claims();
        self.world.advance(self.now);
        for id in self.world.take_due(self.now) {
            let waits = |row: &&JobRow| matches!(row.job.phase, Phase::Waiting { .. });
            let row = self.world.job(id).filter(waits);
            if let Some(mut job) = row.map(|row| row.job.clone()) {
                job.phase = self.ready(id);
                self.put(job);
            }
        }
    }

    /// Makes a plan from the state as it is.
    pub fn plan(&mut self) -> Plan {
        let snapshot = Snapshot { world: &self.world, now: self.now };
        gpool_sched::plan(&snapshot, self.world.policy(), &mut self.workspace)
    }

    /// Makes plans and carries them out until nothing is left to decide, as the state machine does
    /// in one step; answers with the last.
    pub fn cycles(&mut self) -> Plan {
        const ROUNDS_MAX: usize = 8;
        let mut plan = self.cycle();
        for _ in 1..ROUNDS_MAX {
            if plan.decisions.is_empty() || self.workspace.is_settled() {
                break;
            }
            plan = self.cycle();
        }
        plan
    }

    /// Makes a plan and carries it out.
    pub fn cycle(&mut self) -> Plan {
        let plan = self.plan();
        for decision in &plan.decisions {
            let (job, attempt, placements, after) = match decision {
                Decision::Start { job, attempt, placements, after } => {
                    (job, attempt, placements, after)
                }
                Decision::Resume { job, after, .. } => {
                    self.resume(*job, !after.is_empty());
                    continue;
                }
                Decision::Evict { job, why, beneficiary, exit, .. } => {
                    self.take_back(*job, *why, *beneficiary, *exit);
                    continue;
                }
            };
            let row = self.world.job(*job).expect("only jobs that are there are started");
            let mut job = row.job.clone();
            let allocation = |(rank, placement): (u32, &gpool_model::Placement)| Allocation {
                task: TaskId { job: job.id, attempt: *attempt, rank },
                node: placement.node.clone(),
                slots: placement.slots.clone(),
                resources: row.spec.resources(&placement.slots),
                state: match after.is_empty() {
                    true => AllocationState::Running,
                    false => AllocationState::Claimed { after: self.holders(placement) },
                },
            };
            let allocations = (0..).zip(placements).map(allocation).collect();
            self.add_wait(&mut job);
            job.generation = job.generation.next();
            job.phase = match after.is_empty() {
                true => Phase::Running { allocations, started_at: self.now },
                false => Phase::Starting { allocations, since: self.now },
            };
            self.put(job);
        }
        plan
    }

    fn reserve(&mut self, seed: &ReserveSeed) {
        if let Some(reservation) = seed.reservation(&self.world, self.now) {
            self.world.put_reservation(reservation);
        }
    }

    fn submit(&mut self, seed: &JobSeed) {
        let mut cluster = self.world.cluster().clone();
        cluster.last_job = JobNumber(cluster.last_job.0 + 1);
        let id = JobId { number: cluster.last_job, element: None };
        self.world.put_cluster(cluster);
        let after = seed.after.and_then(|(number, kind)| {
            self.pick(number, |_| true).map(|job| Dependency { job: job.id, kind })
        });
        let submitted_at = Timestamp::new(self.now.get().saturating_sub(seed.behind.get()));
        let mut spec = bare_spec(id, &format!("j{}", id.number), &seed.gpus, submitted_at);
        let pool = chosen::random_pool(&self.world, seed.project >> 16);
        spec.request = JobRequest {
            gpus: self.world.sized(&seed.gpus, pool.as_ref()),
            cpus: seed.cpus,
            memory: seed.memory,
            gang: seed.gang,
            time_limit: seed.limit,
            after: after.into_iter().collect(),
            project: self.leaf(seed.project),
            pool,
            nodes: chosen::random(&self.world, seed.project),
            life: gpool_model::Life {
                preemptible: seed.is_preemptible.then_some(true),
                exits: seed.exits().into(),
                ..gpool_model::Life::default()
            },
            ..spec.request
        };
        // Some are of another user, by a part of a number that decides more.
        if (seed.project >> 8).is_multiple_of(3) {
            spec.owner = owner(1001);
        }
        let phase = match (seed.is_held, spec.after.is_empty()) {
            (true, _) => Phase::Held { by: Holder::User, since: self.now, missing: None },
            (false, true) => Phase::Pending { since: self.now },
            (false, false) => Phase::Waiting { since: self.now },
        };
        let job = Job::new(id, seed.priority, phase);
        self.world.add_job(Arc::new(spec), job);
    }

    /// A project that takes jobs.
    fn leaf(&self, number: u32) -> ProjectName {
        let projects = self.world.projects();
        let has_children =
            |name: &ProjectName| projects.values().any(|it| it.parent.as_ref() == Some(name));
        let leaves: Vec<&ProjectName> = projects.keys().filter(|it| !has_children(it)).collect();
        let ix = pick(number, leaves.len()).expect("some project has none below it");
        leaves[ix].clone()
    }

    /// Ends a job, and with it what can no longer start.
    fn end(&mut self, mut job: Job, outcome: Outcome) {
        if take_back::is_pausing(&job) {
            return self.park(job);
        }
        if let Phase::Stopping {
            cause: StopCause::TakenBack { .. } | StopCause::Requeued { hold: false, .. },
            ..
        } = job.phase
        {
            self.begin_again(&mut job);
            job.phase = self.ready(job.id);
            self.put(job);
            return;
        }
        let allocations = job.phase.allocations().to_vec();
        let started_at = match &job.phase {
            Phase::Starting { since, .. } => Some(*since),
            Phase::Running { started_at, .. } | Phase::Paused { started_at, .. } => {
                Some(*started_at)
            }
            _ => None,
        };
        self.add_wait(&mut job);
        job.phase = Phase::Ended(Box::new(JobEnd {
            outcome,
            cause: None::<EndCause>,
            exit: None,
            started_at,
            ended_at: self.now,
            usage: Usage::default(),
            allocations,
        }));
        let id = job.id;
        let dependents: Vec<JobId> = self.world.dependents(id).collect();
        self.put(job);
        for dependent in dependents {
            let Some(row) = self.world.job(dependent) else { continue };
            let mut job = row.job.clone();
            let is_met = |after: &Dependency| after.job != id || after.kind.is_met_by(outcome);
            if row.spec.after.iter().all(is_met) {
                if matches!(job.phase, Phase::Waiting { .. }) {
                    job.phase = self.ready(dependent);
                    self.put(job);
                }
            } else {
                self.end(job, Outcome::Cancelled);
            }
        }
    }

    fn device(&mut self, node: u32, device: u32, change: DeviceChange) {
        let Some(node_ix) = pick(node, self.world.nodes().len()) else { return };
        let mut node = self.world.nodes()[node_ix].node.clone();
        if let Some(device_ix) = pick(device, node.devices.len()) {
            change.apply(&mut node, device_ix, self.now);
            self.world.put_node(node);
        }
    }

    /// Where a job goes that nobody holds.
    fn ready(&self, job: JobId) -> Phase {
        let row = self.world.job(job).expect("asked only for jobs that are there");
        match self.world.is_waiting(&row.spec, &row.job, self.now) {
            true => Phase::Waiting { since: self.now },
            false => Phase::Pending { since: self.now },
        }
    }

    /// Replaces what has become of a job; the tasks of a gang go the same way, all of them.
    fn put(&mut self, mut job: Job) {
        job.course.tasks = courses(&job.phase);
        self.world.put_job(job);
    }

    fn add_wait(&self, job: &mut Job) {
        if let Phase::Pending { since } = &job.phase {
            job.waited = job.waited.saturating_add(self.now.since(*since));
        }
    }

    fn pick(&self, number: u32, wanted: impl Fn(&JobRow) -> bool) -> Option<Job> {
        let rows: Vec<&JobRow> = self.world.job_rows().filter(|row| wanted(row)).collect();
        pick(number, rows.len()).map(|ix| rows[ix].job.clone())
    }
}

fn drain(since: Timestamp) -> Drain {
    let (reason, who) = (Arc::from("x"), Arc::from("root"));
    Drain { by: None, at_deadline: Displace::LetFinish, reason, who, since }
}

/// A number below `n` for any number; `None` if there is none.
fn pick(number: u32, n: usize) -> Option<usize> {
    usize::try_from(number).ok()?.checked_rem(n)
}
