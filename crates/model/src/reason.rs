//! Why a job waits: data with numbers and a stable code. Words are made at the edge.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::filter::NodeFilter;
use crate::gpu::GpuRequest;
use crate::id::{Attempt, DeviceUuid, JobId, NodeName, PoolName, ProjectName, ReservationName};
use crate::job::dependency::DependencyKind;
use crate::job::hold::AdminHold;
use crate::job::state::JobState;
use crate::policy::UserCap;
use crate::resource::ResourceKind;
use crate::share::Share;
use crate::unit::{Bytes, GpuTime, Timestamp};

/// What bounds a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Its limit.
    Limit,
    /// What it is guaranteed: jobs that can't be taken back never use more.
    Guaranteed,
    /// What it is guaranteed, where nothing is lent.
    GuaranteedOnly,
}

/// One thing that keeps a job from starting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    /// Fewer devices that it could use are free in the whole cluster than it needs.
    GpusNotFree {
        /// Devices asked.
        need: u32,
        /// Devices of the asked kind that are free.
        free: u32,
        /// Whether they are MIG instances.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_instances: bool,
    },
    /// Enough devices are free, but not on one node.
    GpusNotFreeTogether {
        /// Devices asked.
        need: u32,
        /// Most that are free on one node.
        free: u32,
        /// That node.
        node: NodeName,
        /// Whether they are MIG instances.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_instances: bool,
    },
    /// Too few nodes have room at once for what it asks of each.
    NodesNotFree {
        /// Nodes asked.
        need: u32,
        /// Nodes that have room.
        free: u32,
        /// Nodes that would have it if nothing ran there.
        able: u32,
    },
    /// Too few of its tasks, which may be anywhere, have room at once.
    TasksNotFree {
        /// Tasks asked.
        need: u32,
        /// Tasks that have room.
        free: u32,
        /// Tasks that would have it if nothing ran.
        able: u32,
    },
    /// It is paused, and not all of the devices are free on which it goes on.
    PausedOn {
        /// Where.
        node: NodeName,
        /// Those devices, by the driver's index.
        indexes: Vec<u32>,
        /// How many of them it could have now.
        free: u32,
    },
    /// Too few devices of one node have room for such a share beside the shares that are there.
    GpuShareNotFree {
        /// Devices asked.
        need: u32,
        /// What is asked of each.
        share: Share,
        /// Most devices with room for it on one node.
        free: u32,
        /// That node.
        node: NodeName,
        /// Most memory that a share could have on one device of the asked kind, now.
        largest: Bytes,
    },
    /// No node has devices of the asked model, or as many of them.
    GpuModelMissing {
        /// What was asked.
        asked: GpuRequest,
        /// Most devices of the asked kind that one node has, in whatever state.
        most: u32,
    },
    /// No node has devices with as much memory.
    GpuMemoryTooSmall {
        /// Least memory asked.
        need: Bytes,
        /// Largest memory of a device.
        largest: Bytes,
    },
    /// A node has task slots left, and keeps them for jobs with GPUs.
    SlotsKeptForGpus {
        /// The node.
        node: NodeName,
        /// Slots asked.
        need: u64,
        /// Slots that are free for tasks without GPUs.
        free: u64,
        /// Slots of the node that tasks without GPUs may have.
        most: u64,
        /// All slots of the node.
        slots: u64,
    },
    /// The job's user has as many task slots as one user may have.
    UserSlots {
        /// Slots that the user has.
        used: u64,
        /// Slots that one user may have.
        most: u64,
        /// All slots of all nodes.
        slots: u64,
    },
    /// The devices are there, but CPU cores, memory or tasks at once are not.
    CpuOrMemShort {
        /// Which kind is short.
        kind: ResourceKind,
        /// Asked, in the kind's unit.
        need: u64,
        /// Free on the node that has most of it free.
        free: u64,
        /// That node.
        node: NodeName,
    },
    /// That many jobs go first.
    AheadInOrder {
        /// The job just before it that also waits.
        job: JobId,
        /// How many are before it.
        n_ahead: u64,
    },
    /// It would fit, and would still be there when a job that comes first is to start.
    WouldDelay {
        /// The job that is planned to start.
        job: JobId,
        /// When.
        planned_at: Timestamp,
    },
    /// As many elements of its array run as may at once.
    GroupParallelLimit {
        /// How many run.
        running: u32,
        /// How many may.
        most: u32,
    },
    /// It waits for another job to end.
    WaitsForJob {
        /// Which.
        job: JobId,
        /// How it must end.
        kind: DependencyKind,
    },
    /// It waits for one of several jobs to end.
    WaitsForOneOf {
        /// The first of them that has not ended.
        job: JobId,
        /// How that one must end.
        kind: DependencyKind,
        /// How many of them have not ended.
        n_jobs: u64,
    },
    /// What it waits for can never be, and it was to be kept.
    DependencyFailed {
        /// A job that ended otherwise than asked.
        job: JobId,
        /// How it ended.
        state: JobState,
    },
    /// It was asked to start later.
    BeginTime {
        /// When.
        at: Timestamp,
    },
    /// It failed and is run again after a pause.
    BackoffAfterFailure {
        /// Until when.
        until: Timestamp,
        /// Which attempt comes then.
        attempt: Attempt,
    },
    /// Its user has as much as one user may have.
    QuotaUser {
        /// Of what.
        what: UserCap,
        /// How much there is: jobs, or thousandths of GPUs.
        used: u64,
        /// How much there may be.
        most: u64,
    },
    /// Its user has as much in its project, or in one above it, as one user may have there.
    QuotaUserInProject {
        /// Who.
        user: Arc<str>,
        /// The project that says so.
        project: ProjectName,
        /// Of what.
        what: UserCap,
        /// How much there is: jobs, or thousandths of GPUs.
        used: u64,
        /// How much there may be.
        most: u64,
    },
    /// Only what is reserved is given out, and of that there is too little free for it.
    NotReserved {
        /// How many devices such as it asks for are reserved for it now.
        reserved: u64,
    },
    /// Its project, or one above it, has as much as it may have.
    QuotaProject {
        /// Which project.
        project: ProjectName,
        /// Of what.
        kind: ResourceKind,
        /// What says how much it may have.
        bound: Bound,
        /// How much it holds of that, in the kind's unit.
        held: u64,
        /// How much more the job asks for.
        asked: u64,
        /// How much it may have.
        most: u64,
    },
    /// Its place is decided, and others are still leaving it.
    PreemptionGrace {
        /// The user and the project of the first of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<(Arc<str>, ProjectName)>,
        /// Devices that they give back, by node and index; the first ones.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<(NodeName, u32)>,
        /// One of them.
        job: JobId,
        /// How many they are.
        n_jobs: u64,
        /// When they have left at the latest, as far as that is known.
        until: Option<Timestamp>,
    },
    /// Another of its project has had less GPU-time than it, or has had more and is to make room.
    GpuTimeHad {
        /// Which.
        job: JobId,
        /// What that one has had.
        theirs: GpuTime,
        /// What this one has had.
        own: GpuTime,
        /// Before when that one is left to run, if it is to make room after that.
        until: Option<Timestamp>,
    },
    /// A user holds it.
    HeldByUser {
        /// Since when.
        since: Timestamp,
    },
    /// An admin holds it.
    HeldByAdmin {
        /// Since when.
        since: Timestamp,
        /// Which admin, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<AdminHold>,
    },
    /// The scheduler holds it, because its plan for the job broke an invariant.
    SetAside {
        /// Since when.
        since: Timestamp,
    },
    /// It is held because a path that it needs was not there when it should have started.
    PathOrImageMissing {
        /// Since when.
        since: Timestamp,
        /// Where it was looked for.
        node: NodeName,
        /// What.
        path: String,
    },
    /// A device that it could use is used by a process that gpool did not start.
    UnmanagedProcess {
        /// On which node.
        node: NodeName,
        /// The device's index.
        index: u32,
        /// The device.
        device: DeviceUuid,
        /// The process.
        pid: u32,
        /// Who owns it, if known.
        user: Option<String>,
        /// What program it is, if known.
        name: Option<String>,
    },
    /// A device that it could use is faulty, lost, or does not answer.
    GpuUnhealthy {
        /// On which node.
        node: NodeName,
        /// The device's index.
        index: u32,
        /// The device.
        device: DeviceUuid,
        /// What is wrong, for people.
        why: String,
    },
    /// A device that it could use is kept from new work by an admin.
    GpuNotAllowed {
        /// On which node.
        node: NodeName,
        /// The device's index.
        index: u32,
        /// The device.
        device: DeviceUuid,
    },
    /// Devices or a node that it could use are kept for others, now or from a moment on before
    /// which it would not end.
    ReservedForOther {
        /// By which reservation.
        reservation: ReservationName,
        /// On which node.
        node: NodeName,
        /// How many devices of the asked kind it keeps there; 0 where it keeps the node from a
        /// job without GPUs.
        n_devices: u32,
        /// When it begins; in the past if it has.
        from: Timestamp,
        /// When it ends, if that is known.
        until: Option<Timestamp>,
    },
    /// It would not end before a maintenance window of a node or devices that it could use
    /// begins, or one holds.
    MaintenanceSoon {
        /// Which window.
        reservation: ReservationName,
        /// On which node.
        node: NodeName,
        /// When it begins; in the past if it has.
        from: Timestamp,
        /// When it ends, if that is known.
        until: Option<Timestamp>,
    },
    /// A node or device that it could use is being emptied by an admin.
    NodeDrained {
        /// Which node.
        node: NodeName,
        /// Which of its devices, by index; `None` where the whole node is.
        index: Option<u32>,
        /// When it is to be empty.
        by: Option<Timestamp>,
        /// Why, as the admin wrote.
        reason: Arc<str>,
    },
    /// A node on which everything else is free runs other jobs, and it wants a node alone; or
    /// another job has that node alone.
    NodeOccupied {
        /// Which node.
        node: NodeName,
        /// Whether it wants the node alone.
        exclusive: bool,
    },
    /// It may only run in one pool of nodes.
    OnlyInPool {
        /// Which.
        pool: PoolName,
        /// How many nodes are in it.
        n_nodes: u32,
    },
    /// It may only use some nodes.
    OnlyOnNodes {
        /// Which.
        nodes: Arc<NodeFilter>,
        /// How many nodes that is.
        n_nodes: u32,
        /// How many nodes of its pool, or of all, are left out.
        n_left_out: u32,
        /// The first of these, by name.
        left_out: Vec<NodeName>,
    },
    /// A node that could run it has no agent that answers.
    AgentUnreachable {
        /// Which node.
        node: NodeName,
    },
}

impl Reason {
    /// Reasons that a list gives of one job; of more it gives the number.
    pub const LISTED_MAX: usize = 8;
    /// Reasons that are given of one job where it is asked about alone.
    pub const SHOWN_MAX: usize = 100;

    /// The first reasons, and how many more there are.
    pub fn first_of(mut reasons: impl Iterator<Item = Self>, most: usize) -> (Vec<Self>, u64) {
        let first = reasons.by_ref().take(most).collect();
        (first, reasons.count() as u64)
    }

    /// The stable code, the same as in JSON.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::GpusNotFree { .. } => "gpus_not_free",
            Self::GpusNotFreeTogether { .. } => "gpus_not_free_together",
            Self::NodesNotFree { .. } => "nodes_not_free",
            Self::TasksNotFree { .. } => "tasks_not_free",
            Self::PausedOn { .. } => "paused_on",
            Self::GpuShareNotFree { .. } => "gpu_share_not_free",
            Self::GpuModelMissing { .. } => "gpu_model_missing",
            Self::GpuMemoryTooSmall { .. } => "gpu_memory_too_small",
            Self::SlotsKeptForGpus { .. } => "slots_kept_for_gpus",
            Self::UserSlots { .. } => "user_slots",
            Self::CpuOrMemShort { .. } => "cpu_or_mem_short",
            Self::AheadInOrder { .. } => "ahead_in_order",
            Self::WouldDelay { .. } => "would_delay",
            Self::GroupParallelLimit { .. } => "group_parallel_limit",
            Self::WaitsForJob { .. } => "waits_for_job",
            Self::WaitsForOneOf { .. } => "waits_for_one_of",
            Self::DependencyFailed { .. } => "dependency_failed",
            Self::BeginTime { .. } => "begin_time",
            Self::BackoffAfterFailure { .. } => "backoff_after_failure",
            Self::QuotaUser { .. } => "quota_user",
            Self::QuotaUserInProject { .. } => "quota_user_in_project",
            Self::NotReserved { .. } => "not_reserved",
            Self::QuotaProject { .. } => "quota_project",
            Self::PreemptionGrace { .. } => "preemption_grace",
            Self::GpuTimeHad { .. } => "gpu_time_had",
            Self::HeldByUser { .. } => "held_by_user",
            Self::HeldByAdmin { .. } => "held_by_admin",
            Self::SetAside { .. } => "set_aside",
            Self::PathOrImageMissing { .. } => "path_or_image_missing",
            Self::UnmanagedProcess { .. } => "unmanaged_process",
            Self::GpuUnhealthy { .. } => "gpu_unhealthy",
            Self::GpuNotAllowed { .. } => "gpu_not_allowed",
            Self::ReservedForOther { .. } => "reserved_for_other",
            Self::MaintenanceSoon { .. } => "maintenance_soon",
            Self::NodeDrained { .. } => "node_drained",
            Self::NodeOccupied { .. } => "node_occupied",
            Self::OnlyInPool { .. } => "only_in_pool",
            Self::OnlyOnNodes { .. } => "only_on_nodes",
            Self::AgentUnreachable { .. } => "agent_unreachable",
        }
    }
}
