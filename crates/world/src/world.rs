//! The tables, and the only functions that change them.

mod arrays;
mod asks;
mod change;
mod enough;
pub(crate) mod evictable;
pub(crate) mod excerpt;
mod gangs;
mod groups;
mod guests;
pub(crate) mod index;
mod messages;
pub(crate) mod parts;
pub(crate) mod projects;
mod requests;
mod reservations;
mod rotations;
mod still;
mod used;
pub(crate) mod users;
pub(crate) mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::array::ArrayEnds;
use gpool_model::job::JobState;
use gpool_model::record::{ClusterRecord, EndedJob, IdempotencyRecord, Record, RecordKey};
use gpool_model::{
    JobId, JobNumber, JobSpec, Likeness, NodeName, Outcome, PastRuns, Policy, PoolName, Prediction,
    Project, ProjectName, Reservation, ReservationName, Revision, TaskId, Timestamp,
};
use thiserror::Error;

use crate::ends::{self, Ends, ExpectedEnd, ExpectedEnds};
use crate::ledger::NodeRow;
use crate::lines::{PendingQueue, PendingQueueKey};
use crate::outbox::Outbox;
use crate::past::Past;
use crate::queue::{Queue, ShapeQueue};
use crate::row::{JobRow, NodeIx, ShapeIx};
use crate::world::arrays::Elements;
use crate::world::asks::RequestCounts;
use crate::world::gangs::Gangs;
use crate::world::groups::Groups;
use crate::world::messages::Subscriptions;
use crate::world::projects::Holdings;
use crate::world::reservations::Alarms;
use crate::world::users::UserRow;
use crate::world::waiting::Dependencies;

/// Why records do not make a world: the store is damaged or from another version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// Only one of a job's two records exists: its state or its spec.
    #[error("job {0} lacks one of its two records")]
    HalfJob(JobId),
    /// A job that has ended was not archived.
    #[error("job {0} has ended and was not archived")]
    EndedJob(JobId),
    /// A job holds something on a node that has no record.
    #[error("job {job} has devices of node {node}, which has no record")]
    NoNode { job: JobId, node: NodeName },
    #[error("the policy has no record")]
    NoPolicy,
}

/// The state of the cluster.
#[derive(Debug, Clone)]
pub struct World {
    pub(crate) revision: Revision,
    pub(crate) cluster: ClusterRecord,
    pub(crate) policy: Policy,
    /// The latest time that the world has seen; zero in a new world.
    pub(crate) clock: Timestamp,
    pub(crate) projects: Arc<BTreeMap<ProjectName, Project>>,
    /// How many projects limit how much one user may hold.
    pub(crate) n_capping: usize,
    /// How many nodes allow one user fewer than all of their task slots.
    pub(crate) n_limiting_slots: usize,
    /// What the jobs of each project hold.
    pub(crate) holdings: Holdings,
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) node_by_name: BTreeMap<NodeName, NodeIx>,
    /// In the order of their names: every cycle goes over all nodes.
    pub(crate) nodes_in_order: Vec<NodeIx>,
    pub(crate) jobs: BTreeMap<JobId, Arc<JobRow>>,
    pub(crate) queue: Queue,
    /// Pending jobs by likeness; empty unless the policy's order uses predictions.
    pub(crate) pending_by_like: BTreeMap<Likeness, BTreeSet<JobId>>,
    /// Jobs that hold something on nodes.
    pub(crate) holding: BTreeSet<JobId>,
    /// What these jobs ask of nodes.
    pub(crate) asks: RequestCounts,
    /// Jobs that start when others have left.
    pub(crate) claimants: BTreeSet<JobId>,
    /// Jobs that leave some or all of the capacity that they hold.
    pub(crate) leaving: BTreeSet<JobId>,
    /// Waiting and held jobs by each job that they wait for.
    pub(crate) dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    pub(crate) dependencies: Dependencies,
    /// Elements that have a row, by array.
    pub(crate) elements: BTreeMap<JobNumber, Elements>,
    pub(crate) n_element_rows: usize,
    /// Arrays that have not ended.
    pub(crate) n_arrays: usize,
    /// Jobs that say which jobs may share a device with them.
    pub(crate) n_with_share_rule: usize,
    /// Jobs that can grow, and the jobs that join them.
    pub(crate) gangs: Gangs,
    /// Jobs that have not ended, by group.
    pub(crate) groups: Groups,
    pub(crate) n_by_state: BTreeMap<JobState, u64>,
    /// What each user's jobs that have not ended ask for and hold.
    pub(crate) users: BTreeMap<u32, UserRow>,
    /// When time alone changes a job. A moment leaves this set once it was handled.
    pub(crate) timers: BTreeSet<(Timestamp, JobId)>,
    /// When running jobs may be rotated, or reach further levels, past moments included.
    pub(crate) rotations: BTreeSet<(Timestamp, JobId)>,
    /// Ends of the jobs that left memory last; dependencies on those jobs need them.
    pub(crate) recent_ends: BTreeMap<JobId, Outcome>,
    /// The end of each element, for the arrays among them.
    pub(crate) recent_arrays: BTreeMap<JobNumber, ArrayEnds>,
    pub(crate) recent_order: std::collections::VecDeque<JobId>,
    /// When the jobs that hold something are expected to end.
    pub(crate) ends: Ends,
    /// How long jobs like one another ran.
    pub(crate) past: Past,
    pub(crate) requests: BTreeMap<String, IdempotencyRecord>,
    pub(crate) reservations: BTreeMap<ReservationName, Reservation>,
    /// Nodes that are drained or have drained devices.
    pub(crate) drained: BTreeSet<NodeName>,
    /// When reservations, drains and the like begin, end or are due by time alone.
    pub(crate) alarms: Alarms,
    pub(crate) requests_by_age: BTreeSet<(Timestamp, String)>,
    pub(crate) requests_of: BTreeMap<u32, BTreeSet<(Timestamp, String)>>,
    pub(crate) outbox: Outbox,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) changed: BTreeSet<RecordKey>,
    /// Grows with each change; shows whether an event changed anything.
    pub(crate) n_changes: u64,
    pub(crate) ended: Vec<EndedJob>,
}

impl World {
    /// How many ended jobs are remembered for later dependencies on them.
    pub(crate) const RECENT_ENDS_MAX: usize = 100_000;

    /// Returns a new cluster: project `default`, no nodes, no jobs.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let mut world = Self {
            revision: Revision(0),
            cluster: ClusterRecord::default(),
            policy,
            clock: Timestamp::ZERO,
            projects: Arc::default(),
            n_capping: 0,
            n_limiting_slots: 0,
            holdings: Holdings::default(),
            nodes: Vec::new(),
            node_by_name: BTreeMap::new(),
            nodes_in_order: Vec::new(),
            jobs: BTreeMap::new(),
            queue: Queue::default(),
            gangs: Gangs::default(),
            groups: Groups::default(),
            pending_by_like: BTreeMap::new(),
            holding: BTreeSet::new(),
            asks: RequestCounts::default(),
            claimants: BTreeSet::new(),
            leaving: BTreeSet::new(),
            dependents: BTreeMap::new(),
            dependencies: Dependencies::default(),
            elements: BTreeMap::new(),
            n_element_rows: 0,
            n_arrays: 0,
            n_with_share_rule: 0,
            n_by_state: BTreeMap::new(),
            users: BTreeMap::new(),
            timers: BTreeSet::new(),
            rotations: BTreeSet::new(),
            recent_ends: BTreeMap::new(),
            recent_arrays: BTreeMap::new(),
            recent_order: std::collections::VecDeque::new(),
            ends: Ends::default(),
            past: Past::default(),
            requests: BTreeMap::new(),
            reservations: BTreeMap::new(),
            drained: BTreeSet::new(),
            alarms: Alarms::default(),
            requests_by_age: BTreeSet::new(),
            requests_of: BTreeMap::new(),
            outbox: Outbox::default(),
            subscriptions: Subscriptions::new(),
            changed: BTreeSet::new(),
            n_changes: 0,
            ended: Vec::new(),
        };
        world.put_project(Project::open(ProjectName::new("default")));
        for record in
            [Record::Cluster(world.cluster.clone()), Record::Policy(Box::new(world.policy.clone()))]
        {
            world.changed.insert(record.key());
        }
        world
    }

    /// If the records contradict each other; nothing is repaired.
    pub fn load(
        revision: Revision,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Self, LoadError> {
        let mut policy = None;
        let mut specs = BTreeMap::new();
        let mut jobs = BTreeMap::new();
        let mut nodes = Vec::new();
        let mut others = Vec::new();
        for record in records {
            match record {
                Record::Policy(found) => policy = Some(*found),
                Record::JobSpec(spec) => drop(specs.insert(spec.id, spec)),
                Record::Job(job) => drop(jobs.insert(job.id, *job)),
                Record::Node(node) => nodes.push(*node),
                Record::Cluster(_)
                | Record::Project(_)
                | Record::Idempotency(_)
                | Record::Reservation(_)
                | Record::PastRuns(_)
                | Record::Delivery(_)
                | Record::Used(_)
                | Record::Subscription(_) => others.push(record),
            }
        }
        let mut world = Self::new(policy.ok_or(LoadError::NoPolicy)?);
        world.revision = revision;
        for record in others {
            match record {
                Record::Cluster(cluster) => world.cluster = cluster,
                Record::Project(project) => world.put_project(*project),
                Record::Idempotency(record) => world.remember_request(record),
                Record::Reservation(reservation) => world.put_reservation(*reservation),
                Record::PastRuns(runs) => world.past.insert(runs),
                Record::Delivery(delivery) => world.outbox.insert(*delivery),
                Record::Used(used) => world.put_used(&used),
                Record::Subscription(it) => world.put_subscription(*it),
                Record::Policy(_) | Record::Node(_) | Record::JobSpec(_) | Record::Job(_) => {}
            }
        }
        for node in nodes {
            world.put_node(node);
        }
        for (id, job) in jobs {
            // An array comes before its elements, which share its spec.
            let spec = match id.element {
                None => specs.remove(&id),
                Some(_) => world.position_of(id).map(|(row, _)| Arc::clone(&row.spec)),
            };
            let spec = spec.ok_or(LoadError::HalfJob(id))?;
            if job.phase.is_ended() {
                return Err(LoadError::EndedJob(id));
            }
            for allocation in job.phase.allocations() {
                if !world.node_by_name.contains_key(&allocation.node) {
                    return Err(LoadError::NoNode { job: id, node: allocation.node.clone() });
                }
            }
            world.add_job(spec, job);
        }
        if let Some(id) = specs.into_keys().next() {
            return Err(LoadError::HalfJob(id));
        }
        world.changed.clear();
        Ok(world)
    }

    /// The last revision that was handed out for a commit.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The facts about the cluster that must never be lost.
    #[must_use]
    pub fn cluster(&self) -> &ClusterRecord {
        &self.cluster
    }

    /// The policy that the scheduler follows.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// All projects by name. While the address stays the same, nothing in the map has changed.
    #[must_use]
    pub fn agreed(&self) -> &Arc<BTreeMap<ProjectName, Project>> {
        &self.projects
    }

    #[must_use]
    pub fn projects(&self) -> &BTreeMap<ProjectName, Project> {
        &self.projects
    }

    /// All nodes, by [`NodeIx`].
    #[must_use]
    pub fn nodes(&self) -> &[NodeRow] {
        &self.nodes
    }

    /// Nodes in the order of their names.
    pub fn nodes_by_name(&self) -> impl Iterator<Item = (NodeIx, &NodeRow)> {
        self.nodes_in_order.iter().map(|ix| (*ix, &self.nodes[ix.0]))
    }

    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&NodeRow> {
        self.node_by_name.get(name).map(|ix| &self.nodes[ix.0])
    }

    #[must_use]
    pub fn node_ix(&self, name: &NodeName) -> Option<NodeIx> {
        self.node_by_name.get(name).copied()
    }

    /// All jobs that have not ended, in the order of their ids.
    pub fn job_rows(&self) -> impl DoubleEndedIterator<Item = &JobRow> + Clone {
        self.jobs.values().map(|row| &**row)
    }

    /// All jobs that have not ended, by id.
    #[must_use]
    pub fn jobs(&self) -> &BTreeMap<JobId, Arc<JobRow>> {
        &self.jobs
    }

    /// One job that has not ended.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&JobRow> {
        self.jobs.get(&id).map(|row| &**row)
    }

    /// Returns how a job ended that left memory recently, or an element of an array that is live or
    /// ended recently.
    #[must_use]
    pub fn recent_end(&self, id: JobId) -> Option<Outcome> {
        self.recent_ends.get(&id).copied().or_else(|| self.element_end(id))
    }

    /// How many jobs are in each state, elements of arrays one by one; ended ones are not counted.
    #[must_use]
    pub fn n_by_state(&self) -> &BTreeMap<JobState, u64> {
        &self.n_by_state
    }

    /// Shapes that have pending jobs, in the order of their rows.
    pub fn shapes(&self) -> impl Iterator<Item = (ShapeIx, &ShapeQueue)> {
        self.queue.shapes()
    }

    /// The pending queues, each with the pool that orders it by a policy of its own.
    pub fn lines(
        &self,
    ) -> impl Iterator<Item = (Option<&PoolName>, PendingQueueKey, &PendingQueue)> {
        self.queue.lines()
    }

    /// The pending queues of the jobs that one pool's policy, or the cluster's, decides about.
    pub fn lines_of(
        &self,
        domain: Option<&PoolName>,
    ) -> impl Iterator<Item = (PendingQueueKey, &PendingQueue)> {
        self.queue.lines_of(domain)
    }

    /// The pending jobs of one shape.
    #[must_use]
    pub fn shape(&self, ix: ShapeIx) -> &ShapeQueue {
        self.queue.shape(ix)
    }

    /// The shape of a pending job, and whether the job is escalated.
    #[must_use]
    pub fn place_of(&self, job: JobId) -> Option<(ShapeIx, bool)> {
        self.queue.place(job).map(|place| (place.shape_ix, place.is_escalated))
    }

    /// How many jobs are pending, elements of arrays one by one.
    #[must_use]
    pub fn n_pending(&self) -> u64 {
        self.queue.n_jobs()
    }

    /// An upper bound of [`crate::FitIx`], for tables indexed by it.
    #[must_use]
    pub fn n_fit_rows(&self) -> usize {
        self.queue.n_fit_rows()
    }

    /// Jobs that hold something on nodes, in the order of their IDs.
    pub fn holding(&self) -> impl Iterator<Item = &JobRow> {
        self.holding.iter().map(|id| &*self.jobs[id])
    }

    /// Jobs that leave some or all of the capacity that they hold, in the order of their IDs.
    pub fn leaving(&self) -> impl Iterator<Item = &JobRow> {
        self.leaving.iter().map(|id| &*self.jobs[id])
    }

    /// Elements of an array that hold something on nodes.
    pub fn elements_holding(&self, array: JobNumber) -> impl Iterator<Item = &JobRow> {
        let of = |element| JobId { number: array, element };
        let ids = self.holding.range(of(Some(0))..=of(Some(u32::MAX)));
        ids.map(|id| &*self.jobs[id])
    }

    /// Jobs that start when others have left.
    pub fn claimants(&self) -> impl Iterator<Item = JobId> + '_ {
        self.claimants.iter().copied()
    }

    /// Whether a task holds anything that other jobs get once it has left or paused.
    #[must_use]
    pub fn is_in_the_way(&self, task: TaskId) -> bool {
        let row = self.jobs.get(&task.job);
        let mut held = row.into_iter().flat_map(|row| row.job.phase.allocations());
        held.any(|it| it.task == task && !it.is_paused())
    }

    /// Predicts how long a job runs; `None` until a job like it has run.
    #[must_use]
    pub fn prediction(&self, spec: &JobSpec) -> Option<Prediction> {
        self.prediction_like(&Likeness::of(spec))
    }

    /// Predicts how long such a job runs; `None` until one has run.
    #[must_use]
    pub fn prediction_like(&self, like: &Likeness) -> Option<Prediction> {
        self.past.of(like)
    }

    /// The recorded run times of all likenesses.
    pub fn past_runs(&self) -> impl Iterator<Item = &PastRuns> {
        self.past.all()
    }

    /// Iterates over the expected ends of jobs that hold something, the earliest first. A job ends
    /// by its time limit and grace, by the order to stop, or after the run time of jobs like it; a
    /// job without any of these is left out. No end is before `now`: a job that is past its limit
    /// ends soon, and a job that is past its prediction runs twice its present length. Each end
    /// comes with the nodes on which it frees devices.
    pub fn expected_ends(&self, now: Timestamp) -> ExpectedEnds<'_> {
        self.ends.from(now, &self.past)
    }

    /// The expected end of one job that holds something, as in [`World::expected_ends`].
    #[must_use]
    pub fn expected_end(&self, row: &JobRow, now: Timestamp) -> Option<ExpectedEnd> {
        ends::expected_end(row, now, &self.past)
    }

    /// Returns when a waiting job would be expected to end if it started now.
    #[must_use]
    pub fn expected_end_if_started(&self, row: &JobRow, now: Timestamp) -> Option<ExpectedEnd> {
        ends::of_start(row, now, now, &self.past)
    }

    /// Jobs that have not started and depend on this job.
    pub fn dependents(&self, job: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.dependents.get(&job).into_iter().flatten().copied()
    }

    /// The answer to an earlier request with this key ([`IdempotencyRecord::key_of`]).
    #[must_use]
    pub fn request(&self, key: &str) -> Option<&IdempotencyRecord> {
        self.requests.get(key)
    }

    /// How many times a record was changed since this world was made.
    #[must_use]
    pub fn n_changes(&self) -> u64 {
        self.n_changes
    }

    /// Returns the next moment at which time alone changes something.
    #[must_use]
    pub fn next_timer(&self) -> Option<Timestamp> {
        let escalation = self.queue.next_escalation();
        let timer = self.timers.first().map(|(at, _)| *at);
        let others = [self.alarms.next(), timer, self.next_rotation()];
        escalation.into_iter().chain(others.into_iter().flatten()).min()
    }
}
