//! Why a request was refused: data with a stable code. Words are made at the edge.

mod code;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::filter::NodeFilter;
use crate::gang::Gang;
use crate::gpu::GpuRequest;
use crate::id::{JobId, NodeName, PoolName, ProjectName, ReservationName};
use crate::job::hold::AdminHold;
use crate::job::state::JobState;
use crate::policy::UserCap;
use crate::reason::Bound;
use crate::reservation::Whom;
use crate::reserve::Affected;
use crate::resource::ResourceKind;
use crate::unit::{Bytes, Millis, Timestamp};
pub use code::Code;

/// Why a request was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Refusal {
    /// A field of the request is malformed.
    Invalid {
        /// Which field.
        field: String,
        /// What is wrong with it, and a valid example.
        why: String,
    },
    /// A request body is too large, or asks for too many jobs at once.
    TooLarge {
        /// What is too large.
        what: String,
        /// The most that is taken, in words.
        most: String,
    },
    /// No GPU is known to the cluster, for the reason given.
    NoGpus {
        /// What was asked.
        asked: GpuRequest,
        /// Where GPUs were looked for and why none were found.
        why: String,
    },
    /// No node could ever hold the GPUs.
    ImpossibleGpus {
        /// What was asked.
        asked: GpuRequest,
        /// The largest request of the same kind that a node could hold; `None` if no device is
        /// of that kind.
        largest: Option<LargestFit>,
        /// The nearest request of another kind that a node could hold.
        nearest: Option<GpuRequest>,
        /// Every model there is with the most of it on one node.
        models: Vec<(String, u32)>,
        /// Devices of the asked kind that an admin keeps from new jobs.
        n_kept_back: u32,
    },
    /// No node could ever hold that much of something beside GPUs.
    ImpossibleResource {
        /// Which kind.
        kind: ResourceKind,
        /// Asked, in the kind's unit.
        asked: u64,
        /// The most a node has (that also has the GPUs asked for).
        largest: u64,
        /// That node.
        node: Option<NodeName>,
    },
    /// Too few nodes could ever hold their part of a job of several nodes.
    TooFewNodes {
        /// What was asked for each task.
        asked: GpuRequest,
        /// How many tasks, on how many nodes.
        gang: Gang,
        /// How many nodes could hold their part of it.
        able: u32,
        /// The most GPUs for each task with which as many nodes as were asked for could.
        largest: Option<u32>,
    },
    /// The caller may not do this.
    NotPermitted {
        /// What, in words: `cancel job 12 of user ana`.
        what: String,
    },
    /// An admin holds or paused the job, and the caller is not such an admin.
    HeldByAdmin {
        /// Which.
        id: JobId,
        /// What was to be done: `release`.
        action: String,
        /// The admin; `None` in a record from before holds had names.
        hold: Option<AdminHold>,
    },
    /// The server runs without root, so it can run jobs of its own user only.
    CannotRunAs {
        /// Whose job it would be.
        user: String,
        /// The user id that it can run jobs of.
        only: u32,
    },
    /// The user has as many jobs that have not ended as one user may have.
    TooManyJobs {
        /// How many there are already.
        n_found: u64,
        /// How many came with the request.
        n_asked: u64,
        /// How many there may be.
        most: u64,
    },
    /// The user has stored as much for jobs as one user may: environments, scripts, values of
    /// arrays.
    TooMuchStored {
        /// How much is stored.
        n_kept: Bytes,
        /// How much came with the request.
        n_more: Bytes,
        /// How much there may be.
        most: Bytes,
    },
    /// A job, or all jobs of the user together, name more dependencies than they may.
    TooManyDependencies {
        /// How many the user's other jobs name; `None` if the job alone names too many.
        n_found: Option<u64>,
        /// How many came with the request, or the job names.
        n_asked: u64,
        /// How many there may be.
        most: u64,
    },
    /// The user has as many jobs that wait as one user may have.
    UserCap {
        /// How many there are already.
        n_found: u64,
        /// How many came with the request.
        n_asked: u64,
        /// How many there may be.
        most: u64,
        /// In which project; `None` in all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<ProjectName>,
    },
    /// The job alone is more than one user may have.
    AboveUserCap {
        /// Who.
        user: Arc<str>,
        /// In which project; `None` in all.
        project: Option<ProjectName>,
        /// Of what.
        what: UserCap,
        /// How much the job is: jobs, or thousandths of GPUs.
        asked: u64,
        /// How much there may be.
        most: u64,
    },
    /// A user asked for more time for a running job than users may.
    ExtendTooLong {
        /// By how much its limit would be longer in all; `None` is without end.
        asked: Option<Millis>,
        /// By how much at most.
        most: Millis,
    },
    /// A user asked for a higher priority than users may.
    PriorityTooHigh {
        /// Asked.
        asked: i32,
        /// The most a user may ask for.
        most: i32,
    },
    /// No job has that id.
    NoSuchJob {
        /// Which.
        id: JobId,
    },
    /// No project has that name.
    NoSuchProject {
        /// Which.
        name: ProjectName,
        /// Those that there are.
        projects: Vec<ProjectName>,
    },
    /// No node is in a pool of that name.
    NoSuchPool {
        /// Which.
        name: PoolName,
        /// Those that there are.
        pools: Vec<PoolName>,
    },
    /// It was asked for in one pool, and that is refused for its nodes; others may do.
    InPool {
        /// Which.
        pool: PoolName,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// It names nodes that there are not, or no node is one of those that it may use.
    NoSuchNodes {
        /// Which it may use.
        nodes: Arc<NodeFilter>,
        /// Those that it names and that there are not.
        unknown: Vec<NodeName>,
        /// Those that there are, with their labels as they are written.
        there: Vec<(NodeName, Vec<String>)>,
    },
    /// It was asked for on some nodes, and that is refused for these; others may do.
    OnNodes {
        /// Which.
        nodes: Arc<NodeFilter>,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// A department takes no jobs.
    DepartmentTakesNoJobs {
        /// Which.
        name: ProjectName,
        /// Projects below it that do.
        leaves: Vec<ProjectName>,
    },
    /// The caller may not submit to a project.
    NotMember {
        /// Which.
        name: ProjectName,
        /// Who asks.
        user: Arc<str>,
        /// Who may: users, then groups as `@group`.
        members: Vec<String>,
        /// Projects to which the caller may submit.
        open: Vec<ProjectName>,
    },
    /// A job asks for more than its project, or one above it, could ever let it have.
    AboveQuota {
        /// Whose quota.
        project: ProjectName,
        /// Of what.
        kind: ResourceKind,
        /// Which part of it: a guarantee is in the way only of what can't be taken back.
        bound: Bound,
        /// What was asked.
        asked: u64,
        /// The most.
        most: u64,
    },
    /// A time limit is longer than a project's jobs may have.
    TimeTooLong {
        /// Whose rule.
        project: ProjectName,
        /// What was asked.
        asked: Millis,
        /// The longest.
        most: Millis,
    },
    /// There is a project of that name.
    ProjectExists {
        /// Which.
        name: ProjectName,
    },
    /// A project has jobs that have not ended.
    ProjectHasJobs {
        /// Which.
        name: ProjectName,
        /// How many.
        n_jobs: u64,
        /// The project that would be below it; `None` where it would be deleted.
        child: Option<ProjectName>,
    },
    /// A project has others below it.
    ProjectHasChildren {
        /// Which.
        name: ProjectName,
        /// Those below it.
        children: Vec<ProjectName>,
    },
    /// A project would be below itself.
    ProjectCycle {
        /// Each is above the next, and the last above the first.
        projects: Vec<ProjectName>,
    },
    /// Jobs that name no project belong to it.
    ProjectNeeded {
        /// Which.
        name: ProjectName,
    },
    /// There are as many projects as there may be.
    TooManyProjects {
        /// How many there may be.
        most: u64,
    },
    /// A project was changed by somebody else in the meantime.
    ProjectConflict {
        /// Which.
        name: ProjectName,
        /// The version that the caller had; 0 where it was not there.
        expected: u64,
        /// The version there is; 0 where it is not there.
        found: u64,
    },
    /// The admin of a project would give away more than it has.
    AboveParent {
        /// The project that would have it.
        project: ProjectName,
        /// The project above it.
        parent: ProjectName,
        /// Of what.
        kind: ResourceKind,
        /// Which part of the quota.
        bound: Bound,
        /// What would be given, all children together; `None` is without bound.
        asked: Option<u64>,
        /// What there is to give.
        most: u64,
    },
    /// No node has that name.
    NoSuchNode {
        /// Which.
        name: NodeName,
    },
    /// A node has no device with that index or UUID.
    NoSuchDevice {
        /// What was named.
        device: String,
        /// The node.
        node: NodeName,
        /// How many devices it has.
        n_devices: u32,
    },
    /// No reservation has that name.
    NoSuchReservation {
        /// Which.
        name: ReservationName,
        /// Those that there are.
        names: Vec<ReservationName>,
    },
    /// A reservation has that name already.
    ReservationExists {
        /// Which.
        name: ReservationName,
    },
    /// Somebody else has reserved the same for a part of the same time.
    ReservationClash {
        /// Who has: the other reservation.
        other: ReservationName,
        /// For whom that is.
        whom: Whom,
        /// On which node.
        node: NodeName,
        /// Which device, by index; `None` where one of them keeps the whole node.
        index: Option<u32>,
        /// When the other begins, or began.
        from: Timestamp,
        /// When it ends.
        until: Option<Timestamp>,
    },
    /// There are not as many devices to reserve as was asked for.
    NotEnoughToReserve {
        /// What was asked.
        asked: GpuRequest,
        /// Wherever they are, or all on one node.
        spread: bool,
        /// The most that could be reserved.
        most: u32,
    },
    /// There are as many reservations as there may be.
    TooManyReservations {
        /// How many there may be.
        most: u64,
    },
    /// It touches the work of others, and nobody said what becomes of that.
    AffectsOthers {
        /// What would be done: `drain lab2`.
        action: String,
        /// Whose work.
        affected: Box<Affected>,
    },
    /// What is to be drained no more is not drained.
    NotDrained {
        /// What: `lab2`, `GPU 3 of lab2`.
        what: String,
    },
    /// The job has ended.
    AlreadyEnded {
        /// Which.
        id: JobId,
        /// How.
        state: JobState,
    },
    /// The job is in a state in which that can't be done.
    WrongState {
        /// Which.
        id: JobId,
        /// The state it is in.
        state: JobState,
        /// What was to be done: `release`.
        action: String,
    },
    /// The object was changed by somebody else in the meantime.
    VersionConflict {
        /// Which.
        id: JobId,
        /// The version that the caller had.
        expected: u64,
        /// The version there is.
        found: u64,
    },
    /// A job to wait for has already ended otherwise than asked.
    DependencyNeverMet {
        /// Which.
        job: JobId,
        /// How it ended.
        state: JobState,
    },
    /// A job would wait for itself.
    DependencyCycle {
        /// Each waits for the next, and the last for the first.
        jobs: Vec<JobId>,
    },
    /// The job has ended, and its environment or script was removed since.
    NotKept {
        /// Which.
        id: JobId,
    },
    /// The job was not to be run again.
    NotRequeueable {
        /// Which.
        id: JobId,
    },
    /// One of several jobs was refused, and so all.
    OfJob {
        /// Which, from 0.
        index: u64,
        /// Why.
        refusal: Box<Self>,
    },
    /// An idempotency key was used before for another request.
    KeyReused {
        /// The key.
        key: String,
    },
    /// The store can't take more.
    StorageFull {
        /// What the store said.
        why: String,
    },
    /// The state folder was removed or replaced under the server.
    StateGone {
        /// What the store said.
        why: String,
    },
    /// The server failed; what was asked may not have been done.
    Internal {
        /// What failed, for people.
        why: String,
    },
    /// The server is stopping.
    ShuttingDown,
}

/// The largest request of a kind that fits a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestFit {
    /// How many devices.
    pub n_devices: u32,
    /// On which node.
    pub node: NodeName,
    /// How many devices of the kind the cluster has in all.
    pub n_in_cluster: u32,
}
