//! Why a job waits: data with numbers and a stable code. The edges format the text.

mod code;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::filter::NodeFilter;
use crate::gpu::GpuRequest;
use crate::id::{Attempt, DeviceUuid, JobId, NodeName, PoolName, ProjectName, ReservationName};
use crate::job::dependency::DependencyKind;
use crate::job::hold::AdminHold;
use crate::job::state::JobState;
use crate::launch::NodeLack;
use crate::policy::UserCap;
use crate::resource::ResourceKind;
use crate::share::Share;
use crate::sharer::ShareWith;
use crate::unit::{Bytes, GpuTime, Timestamp};

/// The kind of bound that a project reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Its limit.
    Limit,
    /// Its guarantee: jobs that are not preemptible never use more.
    Guaranteed,
    /// Its guarantee, under a policy without loans.
    GuaranteedOnly,
}

/// A reason why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// One part of the job has no place; the parts before it would have one.
    OfPart {
        /// The name of the part.
        part: Arc<str>,
        /// Why it has none.
        reason: Box<Self>,
    },
    /// Fewer devices of the requested kind are free in the whole cluster than the job needs.
    GpusNotFree {
        /// Devices requested.
        need: u32,
        /// Devices of the requested kind that are free.
        free: u32,
        /// Whether they are MIG instances.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_instances: bool,
    },
    /// Enough devices are free, but not on one node.
    GpusNotFreeTogether {
        /// Devices requested.
        need: u32,
        /// The most devices that are free on one node.
        free: u32,
        /// That node.
        node: NodeName,
        /// Whether they are MIG instances.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_instances: bool,
    },
    /// Too few nodes have free capacity for their tasks at once.
    NodesNotFree {
        /// Nodes requested.
        need: u32,
        /// Nodes with enough free capacity.
        free: u32,
        /// Nodes that would have enough if they were empty.
        able: u32,
        /// The value of the topology's label on these nodes, if all must have the same: that of
        /// the nodes that are closest to enough.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<Box<str>>,
    },
    /// Too few tasks of a gang that may be anywhere fit at once.
    TasksNotFree {
        /// Tasks requested.
        need: u32,
        /// Tasks that fit.
        free: u32,
        /// Tasks that would fit on empty nodes.
        able: u32,
        /// As of nodes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<Box<str>>,
    },
    /// It is paused, and not all of its devices are free.
    PausedOn {
        /// The node.
        node: NodeName,
        /// Its devices, by the driver's index.
        indexes: Vec<u32>,
        /// The number of them that are free for it.
        free: u32,
    },
    /// It is paused, and some of its devices are out of service: they give no job anything until
    /// they are repaired, or an admin allows it.
    PausedOnMissing {
        /// The node.
        node: NodeName,
        /// These devices, by the driver's index.
        indexes: Vec<u32>,
        /// Why the first of them is, for people.
        why: String,
    },
    /// Too few devices of one node have room for the fraction beside other fractions.
    GpuShareNotFree {
        /// Devices requested.
        need: u32,
        /// The fraction of each.
        share: Share,
        /// The most devices with room for it on one node.
        free: u32,
        /// That node.
        node: NodeName,
        /// The largest free memory of one device of the requested kind.
        largest: Bytes,
    },
    /// Enough devices have room for the fraction, but not beside jobs that may share them with it.
    ShareNotAllowed {
        /// Devices requested.
        need: u32,
        /// The most of one node that have room for it and that it may share.
        free: u32,
        /// That node.
        node: NodeName,
        /// A job there that it may not share a device with.
        job: JobId,
        /// The rule of these two jobs that excludes it.
        with: ShareWith,
    },
    /// No node has enough devices of the requested model.
    GpuModelMissing {
        /// The request.
        asked: GpuRequest,
        /// The most devices of the requested kind on one node, in any state.
        most: u32,
    },
    /// No device has enough memory.
    GpuMemoryTooSmall {
        /// Least memory requested.
        need: Bytes,
        /// Largest memory of a device.
        largest: Bytes,
    },
    /// The free task slots of a node are reserved for jobs with GPUs.
    SlotsKeptForGpus {
        /// The node.
        node: NodeName,
        /// Slots requested.
        need: u64,
        /// Slots that are free for tasks without GPUs.
        free: u64,
        /// All slots for tasks without GPUs on the node.
        most: u64,
        /// All slots of the node.
        slots: u64,
    },
    /// The job's user has the most task slots that one user may have.
    UserSlots {
        /// Slots that the user has.
        used: u64,
        /// The most slots of one user.
        most: u64,
        /// All slots of all nodes.
        slots: u64,
    },
    /// Devices are free, but CPU cores, memory or task slots are not.
    CpuOrMemShort {
        /// The kind that is short.
        kind: ResourceKind,
        /// The amount requested, in the kind's unit.
        need: u64,
        /// The amount free on the node with most of it.
        free: u64,
        /// That node.
        node: NodeName,
    },
    /// Other jobs go first.
    AheadInOrder {
        /// The waiting job directly before it in the queue.
        job: JobId,
        /// The number of jobs before it.
        n_ahead: u64,
    },
    /// It would fit, but delay the planned start of a job that goes before it.
    WouldDelay {
        /// The job with the planned start.
        job: JobId,
        /// The planned start.
        planned_at: Timestamp,
    },
    /// As many elements of its array as may run at once are running, or have a planned start.
    GroupParallelLimit {
        /// The number of these elements.
        running: u32,
        /// The limit.
        most: u32,
    },
    /// It waits for another job to end.
    WaitsForJob {
        /// The job.
        job: JobId,
        /// The required end.
        kind: DependencyKind,
    },
    /// It waits for one of several jobs to end.
    WaitsForOneOf {
        /// The first of them that has not ended.
        job: JobId,
        /// The required end of that job.
        kind: DependencyKind,
        /// The number of jobs that have not ended.
        n_jobs: u64,
    },
    /// Its dependency can never be met, and its user asked to keep it.
    DependencyFailed {
        /// The job that ended in another way than required.
        job: JobId,
        /// How it ended.
        state: JobState,
    },
    /// Its begin time has not come.
    BeginTime {
        /// The time.
        at: Timestamp,
    },
    /// It failed and waits before its next attempt.
    BackoffAfterFailure {
        /// Until when.
        until: Timestamp,
        /// The next attempt.
        attempt: Attempt,
    },
    /// Its user has reached a cap.
    QuotaUser {
        /// The cap.
        what: UserCap,
        /// The amount in use: jobs, or thousandths of GPUs.
        used: u64,
        /// The value of the cap.
        most: u64,
    },
    /// Its user has reached a cap in its project or one above it.
    QuotaUserInProject {
        /// The user.
        user: Arc<str>,
        /// The project that sets the cap.
        project: ProjectName,
        /// The cap.
        what: UserCap,
        /// The amount in use: jobs, or thousandths of GPUs.
        used: u64,
        /// The value of the cap.
        most: u64,
    },
    /// The policy only allocates reserved devices, and too few reserved for the job are free.
    NotReserved {
        /// The number of matching devices that are reserved for it now.
        reserved: u64,
    },
    /// Its project, or one above it, has reached its quota.
    QuotaProject {
        /// The project.
        project: ProjectName,
        /// The kind of resource.
        kind: ResourceKind,
        /// The kind of bound.
        bound: Bound,
        /// The amount in use, in the kind's unit.
        held: u64,
        /// The amount that the job adds.
        asked: u64,
        /// The value of the bound.
        most: u64,
    },
    /// Its placement is decided, and victims are still leaving it.
    PreemptionGrace {
        /// The user and project of the first victim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<(Arc<str>, ProjectName)>,
        /// The first of the devices that they free, by node and index.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<(NodeName, u32)>,
        /// One of the victims.
        job: JobId,
        /// The number of victims.
        n_jobs: u64,
        /// The latest time at which they have left, if known.
        until: Option<Timestamp>,
    },
    /// Another job of the project has less attained GPU time, or has more and will be preempted.
    GpuTimeHad {
        /// The other job.
        job: JobId,
        /// The attained GPU time of the other job.
        theirs: GpuTime,
        /// The attained GPU time of this job.
        own: GpuTime,
        /// The end of the other job's minimum run time, if it will be preempted then.
        until: Option<Timestamp>,
    },
    /// A user holds it.
    HeldByUser {
        /// The time at which this began.
        since: Timestamp,
    },
    /// An admin holds it.
    HeldByAdmin {
        /// The time at which this began.
        since: Timestamp,
        /// The admin, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<AdminHold>,
    },
    /// It is being paused: its devices are not free yet.
    Pausing {
        /// The time at which this began.
        since: Timestamp,
    },
    /// Its devices were released because it did not use them; it returns at its next GPU call.
    Released {
        /// The time at which this began.
        since: Timestamp,
    },
    /// The scheduler holds it, because its plan for the job broke an invariant.
    SetAside {
        /// The time at which this began.
        since: Timestamp,
    },
    /// The budget of its project or user for this month is used up.
    OverBudget {
        /// The time at which this began.
        since: Timestamp,
        /// The budget; `None` if it no longer is, and the job is about to be released.
        by: Option<Box<crate::budget::Overspent>>,
    },
    /// A node lacks something that the job needs, such as its working directory.
    NodeLacks {
        /// The node and the need.
        lack: NodeLack,
        /// Since when the job is held for it, because no other node can run it. `None` if the job
        /// waits for other nodes.
        held_since: Option<Timestamp>,
    },
    /// It runs in a container, and no node has an engine for containers.
    NoEngine,
    /// A node pulls the image of its container.
    ImagePull {
        /// The node.
        node: NodeName,
        /// The image.
        image: String,
        /// How far it is, in the words of the engine.
        progress: String,
    },
    /// A process that gpool did not start uses a device that the job could use.
    UnmanagedProcess {
        /// The node.
        node: NodeName,
        /// The device's index.
        index: u32,
        /// The device.
        device: DeviceUuid,
        /// The process.
        pid: u32,
        /// Its user, if known.
        user: Option<String>,
        /// Its program, if known.
        name: Option<String>,
    },
    /// A device that the job could use is faulty, lost, or does not answer.
    GpuUnhealthy {
        /// The node.
        node: NodeName,
        /// The device's index.
        index: u32,
        /// The device.
        device: DeviceUuid,
        /// The fault, for people.
        why: String,
    },
    /// An admin has excluded a device that the job could use.
    GpuNotAllowed {
        /// The node.
        node: NodeName,
        /// The device's index.
        index: u32,
        /// The device.
        device: DeviceUuid,
    },
    /// Devices or a node that the job could use are reserved for others, now or before the job
    /// would end.
    ReservedForOther {
        /// The reservation.
        reservation: ReservationName,
        /// Its beneficiary: `bob`, `project red`, `job 7`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whom: Option<Arc<str>>,
        /// The node.
        node: NodeName,
        /// The number of matching devices that it reserves there; 0 if it keeps a job without GPUs
        /// off the node.
        n_devices: u32,
        /// When it begins; in the past if it has.
        from: Timestamp,
        /// When it ends, if that is known.
        until: Option<Timestamp>,
    },
    /// The job would not end before a maintenance window of a node or devices that it could use, or
    /// the window has begun.
    MaintenanceSoon {
        /// The window.
        reservation: ReservationName,
        /// The node.
        node: NodeName,
        /// When it begins; in the past if it has.
        from: Timestamp,
        /// When it ends, if that is known.
        until: Option<Timestamp>,
    },
    /// An admin drains a node or device that the job could use.
    NodeDrained {
        /// The node.
        node: NodeName,
        /// The index of the device; `None` for the whole node.
        index: Option<u32>,
        /// When it must be empty.
        by: Option<Timestamp>,
        /// The reason that the admin gave.
        reason: Arc<str>,
    },
    /// A node has enough capacity, but the job needs it exclusively and other jobs run there, or
    /// another job has it exclusively.
    NodeOccupied {
        /// The node.
        node: NodeName,
        /// Whether the waiting job needs the node exclusively.
        exclusive: bool,
    },
    /// The job may only run in one pool.
    OnlyInPool {
        /// The pool.
        pool: PoolName,
        /// The number of nodes in it.
        n_nodes: u32,
    },
    /// The job's node filter excludes nodes.
    OnlyOnNodes {
        /// The filter.
        nodes: Arc<NodeFilter>,
        /// The number of nodes that it allows.
        n_nodes: u32,
        /// The number of nodes of its pool, or of all, that it excludes.
        n_left_out: u32,
        /// The first excluded nodes, by name.
        left_out: Vec<NodeName>,
    },
    /// The agent of a node that could run the job does not answer.
    AgentUnreachable {
        /// The node.
        node: NodeName,
        /// Since when, if it was heard in this run of the server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
    },
}

impl Reason {
    /// The most reasons of one job in a list; the others are only counted.
    pub const LISTED_MAX: usize = 8;
    /// The most reasons in an answer about a single job.
    pub const SHOWN_MAX: usize = 100;

    /// The first reasons, and the number of the others.
    pub fn first_of(mut reasons: impl Iterator<Item = Self>, most: usize) -> (Vec<Self>, u64) {
        let first = reasons.by_ref().take(most).collect();
        (first, reasons.count() as u64)
    }
}
