//! Why a request was refused: data with a stable code. The edges format the text.

mod code;
mod facts;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::enforcement::Enforcement;
use crate::filter::NodeFilter;
use crate::gang::Gang;
use crate::gpu::GpuRequest;
use crate::id::{JobId, NodeName, PoolName, ProjectName, ReservationName};
use crate::job::hold::AdminHold;
use crate::job::state::JobState;
use crate::policy::UserCap;
use crate::reason::Bound;
use crate::reservation::Beneficiary;
use crate::reserve::Affected;
use crate::resource::ResourceKind;
use crate::unit::{Bytes, Millis, Timestamp};
pub use code::Code;
pub use facts::{LargestFit, Permitted};

/// Why a request was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A field of the request is malformed.
    Invalid {
        /// Which field.
        field: String,
        /// The error and a valid example.
        why: String,
    },
    /// A request body is too large, or asks for too many jobs at once.
    TooLarge {
        /// The part that is too large.
        what: String,
        /// The limit, in words.
        most: String,
    },
    /// One part of the job, by its name, is refused.
    OfPart(Arc<str>, Box<Self>),
    /// Nodes could run each part of the job, but they have too few GPUs for all parts.
    PartsTogether {
        /// Whole GPUs that all parts ask for.
        n_requested: u64,
        /// GPUs that any of them could use.
        n_devices: u64,
    },
    /// The cluster has no GPUs.
    NoGpus {
        /// The request.
        asked: GpuRequest,
        /// Where the server looked for GPUs, and why it found none.
        why: String,
    },
    /// The job runs in a container, and no node that it may use has an engine for containers.
    NoEngine,
    /// The GPUs fit no node, even an empty one.
    ImpossibleGpus {
        /// The request.
        asked: GpuRequest,
        /// The largest request of this kind that fits a node; `None` if there are no such devices.
        largest: Option<LargestFit>,
        /// The nearest request of another kind that fits a node.
        nearest: Option<GpuRequest>,
        /// Every model with the most devices of it on one node.
        models: Vec<(String, u32)>,
        /// Devices of the requested kind that an admin excludes from new jobs.
        n_kept_back: u32,
        /// The best enforcement of devices that fit otherwise, if only that is missing.
        strongest: Option<Enforcement>,
    },
    /// The requested CPU, memory or task slots fit no node, even an empty one.
    ImpossibleResource {
        /// Which kind.
        kind: ResourceKind,
        /// The amount requested, in the kind's unit.
        asked: u64,
        /// The most of a node that has the requested GPUs.
        largest: u64,
        /// That node.
        node: Option<NodeName>,
    },
    /// Too few nodes are large enough for a job of several nodes.
    TooFewNodes {
        /// The request of each task.
        asked: GpuRequest,
        /// The number of tasks and nodes.
        gang: Gang,
        /// The number of nodes that are large enough.
        able: u32,
        /// The largest number of GPUs per task that enough nodes have.
        largest: Option<u32>,
    },
    /// The caller may not do this.
    NotPermitted {
        /// The action, in words: `cancel job 12 of user ana`.
        what: String,
        /// The users that may do it.
        #[serde(default)]
        by: Permitted,
    },
    /// An admin holds or paused the job, and the caller does not have the same rights.
    HeldByAdmin {
        /// The job.
        id: JobId,
        /// The action: `release`.
        action: String,
        /// The admin; `None` in a record from before holds had names.
        hold: Option<AdminHold>,
    },
    /// The server runs without root, so it can only run jobs of its own user.
    CannotRunAs {
        /// The user of the job.
        user: String,
        /// The user ID of the server; it can run this user's jobs.
        only: u32,
    },
    /// The user would have too many jobs that have not ended.
    TooManyJobs {
        /// The user's present number of jobs.
        n_found: u64,
        /// The number of jobs in the request.
        n_asked: u64,
        /// The limit.
        most: u64,
    },
    /// The user would store too much: environments, scripts, values of arrays.
    TooMuchStored {
        /// The amount stored.
        n_kept: Bytes,
        /// The amount in the request.
        n_more: Bytes,
        /// The limit.
        most: Bytes,
    },
    /// A job, or all jobs of the user together, would have too many dependencies.
    TooManyDependencies {
        /// The dependencies of the user's other jobs; `None` if the job alone has too many.
        n_found: Option<u64>,
        /// The dependencies in the request, or of the job.
        n_asked: u64,
        /// The limit.
        most: u64,
    },
    /// The user would have too many waiting jobs.
    UserCap {
        /// The user's present number of waiting jobs.
        n_found: u64,
        /// The number of jobs in the request.
        n_asked: u64,
        /// The cap.
        most: u64,
        /// The project that sets the cap; `None` is the policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<ProjectName>,
    },
    /// The job alone exceeds a cap of its user.
    AboveUserCap {
        /// The user.
        user: Arc<str>,
        /// The project that sets the cap; `None` is the policy.
        project: Option<ProjectName>,
        /// The cap.
        what: UserCap,
        /// The amount that the job needs: jobs, or thousandths of GPUs.
        asked: u64,
        /// The value of the cap.
        most: u64,
    },
    /// A user tried to extend a running job by more than users may.
    ExtendTooLong {
        /// The total extension of its limit; `None` removes the limit.
        asked: Option<Millis>,
        /// The largest total extension.
        most: Millis,
    },
    /// A user asked for a higher priority than users may have.
    PriorityTooHigh {
        /// The priority.
        asked: i32,
        /// The highest priority of users.
        most: i32,
    },
    /// There is no such job.
    NoSuchJob {
        /// The job.
        id: JobId,
    },
    /// There is no such project.
    NoSuchProject {
        /// The name.
        name: ProjectName,
        /// The existing projects.
        projects: Vec<ProjectName>,
    },
    /// There is no such pool.
    NoSuchPool {
        /// The name.
        name: PoolName,
        /// The existing pools.
        pools: Vec<PoolName>,
    },
    /// The request fails for the nodes of its pool; other pools might work.
    InPool {
        /// The pool.
        pool: PoolName,
        /// The refusal.
        refusal: Box<Refusal>,
    },
    /// The node filter names unknown nodes or allows no node.
    NoSuchNodes {
        /// The filter.
        nodes: Arc<NodeFilter>,
        /// The unknown nodes.
        unknown: Vec<NodeName>,
        /// The existing nodes with their labels.
        there: Vec<(NodeName, Vec<String>)>,
    },
    /// The request fails for the nodes that its filter allows; others might work.
    OnNodes {
        /// The filter.
        nodes: Arc<NodeFilter>,
        /// The refusal.
        refusal: Box<Refusal>,
    },
    /// A department takes no jobs.
    DepartmentTakesNoJobs {
        /// The department.
        name: ProjectName,
        /// The projects below it that take jobs.
        leaves: Vec<ProjectName>,
    },
    /// The caller may not submit to the project.
    NotMember {
        /// The name.
        name: ProjectName,
        /// The caller.
        user: Arc<str>,
        /// The members: users, then groups as `@group`.
        members: Vec<String>,
        /// Projects that the caller may submit to.
        open: Vec<ProjectName>,
    },
    /// A job requests more than the quota of its project or one above it can ever allow.
    AboveQuota {
        /// The project with the quota.
        project: ProjectName,
        /// The kind of resource.
        kind: ResourceKind,
        /// The kind of bound; a guarantee bounds only jobs that are not preemptible.
        bound: Bound,
        /// The amount requested.
        asked: u64,
        /// The value of the bound.
        most: u64,
    },
    /// A time limit is longer than the project allows.
    TimeTooLong {
        /// The project that sets the longest time limit.
        project: ProjectName,
        /// The time limit requested.
        asked: Millis,
        /// The longest time limit.
        most: Millis,
    },
    /// The project exists already.
    ProjectExists {
        /// The name.
        name: ProjectName,
    },
    /// The project has jobs that have not ended.
    ProjectHasJobs {
        /// The name.
        name: ProjectName,
        /// The number of jobs.
        n_jobs: u64,
        /// The project that would become its child; `None` if it would be deleted.
        child: Option<ProjectName>,
    },
    /// The project has projects below it.
    ProjectHasChildren {
        /// The name.
        name: ProjectName,
        /// The projects below it.
        children: Vec<ProjectName>,
    },
    /// A project would be its own ancestor.
    ProjectCycle {
        /// Each is the parent of the next, and the last of the first.
        projects: Vec<ProjectName>,
    },
    /// Jobs without a project are charged to it, so it must exist and stay a leaf.
    ProjectNeeded {
        /// The name.
        name: ProjectName,
    },
    /// The server has the most projects that it may have.
    TooManyProjects {
        /// The limit.
        most: u64,
        /// The project below which they are; `None` for all projects.
        below: Option<ProjectName>,
    },
    /// Another caller changed a project in the meantime.
    ProjectConflict {
        /// The name.
        name: ProjectName,
        /// The version that the caller saw; 0 if it did not exist.
        expected: u64,
        /// The present version; 0 if it does not exist.
        found: u64,
    },
    /// The admin of a project would give its children more than it has.
    AboveParent {
        /// The child.
        project: ProjectName,
        /// Its parent.
        parent: ProjectName,
        /// The kind of resource.
        kind: ResourceKind,
        /// The part of the quota.
        bound: Bound,
        /// The sum over all children after the change; `None` is unlimited.
        asked: Option<u64>,
        /// The parent's own amount.
        most: u64,
    },
    /// There is no such node.
    NoSuchNode {
        /// The name.
        name: NodeName,
    },
    /// The agent of the node answers, so the node can't be removed.
    NodeAnswers {
        /// The node.
        name: NodeName,
    },
    /// Jobs or reservations hold capacity of the node, so it can't be removed.
    NodeInUse {
        /// The node.
        name: NodeName,
        /// The jobs.
        jobs: Vec<JobId>,
        /// The reservations that name it.
        reservations: Vec<ReservationName>,
    },
    /// The node has no device with this index or UUID.
    NoSuchDevice {
        /// The index or UUID.
        device: String,
        /// The node.
        node: NodeName,
        /// The number of its devices.
        n_devices: u32,
    },
    /// The user has no secret with this name.
    NoSuchSecret {
        /// The name.
        name: String,
    },
    /// There is no such reservation.
    NoSuchReservation {
        /// The name.
        name: ReservationName,
        /// The existing reservations.
        names: Vec<ReservationName>,
    },
    /// The reservation exists already.
    ReservationExists {
        /// The name.
        name: ReservationName,
    },
    /// Another reservation covers the same devices at some time.
    ReservationClash {
        /// The other reservation.
        other: ReservationName,
        /// Its beneficiary.
        #[serde(rename = "whom")]
        beneficiary: Beneficiary,
        /// The node.
        node: NodeName,
        /// The index of the device; `None` if one of the reservations covers the whole node.
        index: Option<u32>,
        /// When the other reservation begins or began.
        from: Timestamp,
        /// When it ends.
        until: Option<Timestamp>,
    },
    /// There are too few devices to reserve.
    NotEnoughToReserve {
        /// The request.
        asked: GpuRequest,
        /// Whether the devices may be on several nodes.
        spread: bool,
        /// The most devices that could be reserved.
        most: u32,
    },
    /// The server has the most reservations that it may have.
    TooManyReservations {
        /// The limit.
        most: u64,
    },
    /// The action affects jobs of others, and the caller did not choose what happens to them.
    AffectsOthers {
        /// The action: `drain lab2`.
        action: String,
        /// The affected jobs.
        affected: Box<Affected>,
    },
    /// The node or device is not drained.
    NotDrained {
        /// The node or device: `lab2`, `GPU 3 of lab2`.
        what: String,
    },
    /// The job has ended.
    AlreadyEnded {
        /// The job.
        id: JobId,
        /// The final state.
        state: JobState,
    },
    /// The action is not possible in the job's state.
    WrongState {
        /// The job.
        id: JobId,
        /// The state.
        state: JobState,
        /// The action: `release`.
        action: String,
    },
    /// Another caller changed the job in the meantime.
    VersionConflict {
        /// The job.
        id: JobId,
        /// The version that the caller saw.
        expected: u64,
        /// The present version.
        found: u64,
    },
    /// A dependency has already ended in another way than required.
    DependencyNeverMet {
        /// The other job.
        job: JobId,
        /// Its final state.
        state: JobState,
    },
    /// A job would depend on itself.
    DependencyCycle {
        /// Each depends on the next, and the last on the first.
        jobs: Vec<JobId>,
    },
    /// The environment or script of the ended job was deleted.
    NotKept {
        /// The job.
        id: JobId,
    },
    /// The job's user excluded requeueing.
    NotRequeueable {
        /// The job.
        id: JobId,
    },
    /// One of several jobs was refused, so none was accepted.
    OfJob {
        /// The position of the job, from 0.
        index: u64,
        /// The refusal.
        refusal: Box<Self>,
    },
    /// An idempotency key was used before for another request.
    KeyReused {
        /// The key.
        key: String,
    },
    /// The store is full.
    StorageFull {
        /// The error of the store.
        why: String,
    },
    /// The state folder was removed or replaced while the server ran.
    StateGone {
        /// The error of the store.
        why: String,
    },
    /// The server failed; it may not have carried out the request.
    Internal {
        /// The error, for people.
        why: String,
    },
    /// The server is stopping.
    ShuttingDown,
}
