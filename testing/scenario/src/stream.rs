//! A cluster that applies steps one after another and carries out the plan of each cycle at once:
//! the state machine without agents, commits and permissions.

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
use crate::gang::{courses, gang_text, random_parts};
use crate::reader::owner;
use crate::reserve_step::ReserveSeed;
use crate::situation::{Situation, bare_spec};

/// One step. A number modulo the count selects a job, node or device, so every step has a meaning
/// in every cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Submit(JobSeed),
    /// End one of the jobs with allocations.
    End(u32, Outcome),
    /// Let a stopping or pausing job finish.
    Leave(u32),
    /// Cancel a job; a running one goes on until it ends.
    Cancel(u32),
    /// Hold a waiting job.
    Hold(u32),
    /// Release a held job.
    Release(u32),
    /// Requeue a job with allocations for its next attempt.
    Requeue(u32),
    /// Change a device: node, device, change.
    Device(u32, u32, DeviceChange),
    /// Disconnect or connect the agent of a node.
    Connect(u32, bool),
    /// Drain a node, or undrain it.
    Drain(u32, bool),
    /// Reserve a device or a node.
    Reserve(ReserveSeed),
    /// End a reservation.
    Unreserve(u32),
    /// Change the device strategy.
    Strategy(DeviceStrategy),
    /// Let time pass.
    Pass(Millis),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChange {
    /// It works again.
    Mend,
    /// It reports a fault.
    Break,
    /// A foreign process uses it.
    Intrude,
    /// An admin forbids new jobs on it.
    Forbid,
    /// It is divided into instances.
    Divide,
    /// An admin drains it.
    Drain,
}

impl DeviceChange {
    /// Applies the change to a device of a node.
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
                device.mig = device.mig.take().filter(|_| has_instances);
                node.device_drains.remove(&device.uuid);
                if let Some(allowed) = &mut node.allowed {
                    allowed.insert(device.uuid.clone());
                }
            }
            Self::Break => device.health = DeviceHealth::Unhealthy { why: "Xid 79".to_owned() },
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
            Self::Divide => device.mig = Some(Mig { enabled: true, ..Mig::default() }),
            Self::Drain => drop(node.device_drains.insert(device.uuid.clone(), drain(now))),
        }
    }
}

/// The random parts of a job.
#[derive(Clone, PartialEq, Eq)]
pub struct JobSeed {
    pub gpus: GpuRequest,
    /// The cores.
    pub cpus: Option<MilliCpu>,
    /// The host memory.
    pub memory: Option<Bytes>,
    /// The tasks.
    pub gang: Gang,
    /// The time limit.
    pub limit: Option<Millis>,
    pub priority: i32,
    /// How late the clock was at submission, so that ages and ids disagree.
    pub behind: Millis,
    /// Whether it is submitted held.
    pub is_held: bool,
    /// The job that it waits for, selected from the existing ones.
    pub after: Option<(u32, DependencyKind)>,
    /// The project, selected from those without projects below them.
    pub project: u32,
    /// Whether it is preemptible.
    pub is_preemptible: bool,
}

impl fmt::Debug for JobSeed {
    /// One line, without default values.
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

/// A world with the current time and the scheduler's workspace.
#[derive(Debug)]
pub struct Cluster {
    world: World,
    now: Timestamp,
    workspace: Workspace,
}

impl Cluster {
    /// A cluster with this situation.
    #[must_use]
    pub fn of(situation: &Situation) -> Self {
        let workspace = Workspace::default();
        Self { world: situation.world(), now: situation.now, workspace }
    }

    /// The current state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { world: &self.world, now: self.now }
    }

    /// The world, for reading its changes.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Applies one step.
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

    /// Applies consequences: claims that are free, and jobs that wait for a time.
    fn follow_up(&mut self) {
        self.come_into_claims();
        self.world.advance(self.now);
        for id in self.world.pop_due_jobs(self.now) {
            let waits = |row: &&JobRow| matches!(row.job.phase, Phase::Waiting { .. });
            let row = self.world.job(id).filter(waits);
            if let Some(mut job) = row.map(|row| row.job.clone()) {
                job.phase = self.ready(id);
                self.put(job);
            }
        }
    }

    /// Makes a plan for the current state.
    pub fn plan(&mut self) -> Plan {
        let snapshot = Snapshot { world: &self.world, now: self.now };
        gpool_sched::plan(&snapshot, self.world.policy(), &mut self.workspace)
    }

    /// Runs cycles until nothing is left to decide; returns the last plan.
    pub fn cycles(&mut self) -> Plan {
        let (mut plan, mut n_rounds) = (self.cycle(), 1);
        while n_rounds < 8 && !plan.decisions.is_empty() && !self.workspace.is_settled() {
            n_rounds += usize::from(!self.is_cut());
            plan = self.cycle();
        }
        plan
    }

    /// Whether the last plan ended at a resume, before the rest of the queue.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.workspace.is_cut()
    }

    /// Runs one cycle: makes a plan and carries it out.
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
                resources: row.spec.resources(rank, &placement.slots),
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
            self.pick(number, |_| true).map(|job| Dependency::new(job.id, kind))
        });
        let submitted_at = Timestamp::new(self.now.get().saturating_sub(seed.behind.get()));
        let mut spec = bare_spec(id, &format!("j{}", id.number), &seed.gpus, submitted_at);
        let pool = chosen::random_pool(&self.world, seed.project >> 16);
        spec.request = JobRequest {
            gpus: self.world.sized(&seed.gpus, pool.as_ref()),
            cpus: seed.cpus,
            memory: seed.memory,
            share_with: chosen::share_with(seed.project),
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
        random_parts(&mut spec.request, seed.project);
        // Some jobs belong to another user; the number has further meanings.
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

    /// Selects a project that takes jobs.
    fn leaf(&self, number: u32) -> ProjectName {
        let projects = self.world.projects();
        let has_children =
            |name: &ProjectName| projects.values().any(|it| it.parent.as_ref() == Some(name));
        let leaves: Vec<&ProjectName> = projects.keys().filter(|it| !has_children(it)).collect();
        let ix = pick(number, leaves.len()).expect("some project has none below it");
        leaves[ix].clone()
    }

    /// Ends a job, and jobs that can no longer start because of it.
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
        let started_at = match job.phase {
            Phase::Starting { since: at, .. }
            | Phase::Running { started_at: at, .. }
            | Phase::Paused { started_at: at, .. } => Some(at),
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
            allocations: job.phase.allocations().to_vec(),
            resized: 0,
            steps: gpool_model::Rare::default(),
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

    /// The phase of a job that is no longer held.
    fn ready(&self, job: JobId) -> Phase {
        let row = self.world.job(job).expect("asked only for jobs that are there");
        match self.world.is_waiting(&row.spec, &row.job, self.now) {
            true => Phase::Waiting { since: self.now },
            false => Phase::Pending { since: self.now },
        }
    }

    /// Replaces the state of a job; all tasks of a gang have the same course.
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

/// Maps any number to a number below `n`; `None` if `n` is 0.
fn pick(number: u32, n: usize) -> Option<usize> {
    usize::try_from(number).ok()?.checked_rem(n)
}
