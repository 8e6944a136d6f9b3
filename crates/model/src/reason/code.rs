//! The names of reasons for programs.

use super::Reason;

impl Reason {
    /// The stable code, the same as in JSON.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::OfPart { reason, .. } => reason.code(),
            Self::GpusNotFree { .. } => "gpus_not_free",
            Self::GpusNotFreeTogether { .. } => "gpus_not_free_together",
            Self::NodesNotFree { .. } => "nodes_not_free",
            Self::TasksNotFree { .. } => "tasks_not_free",
            Self::PausedOn { .. } => "paused_on",
            Self::PausedOnMissing { .. } => "paused_on_missing",
            Self::GpuShareNotFree { .. } => "gpu_share_not_free",
            Self::ShareNotAllowed { .. } => "share_not_allowed",
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
            Self::Pausing { .. } => "pausing",
            Self::Released { .. } => "released",
            Self::SetAside { .. } => "set_aside",
            Self::OverBudget { .. } => "over_budget",
            Self::NoEngine => "no_container_engine",
            Self::ImagePull { .. } => "image_pull",
            Self::NodeLacks { .. } => "node_lacks",
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
