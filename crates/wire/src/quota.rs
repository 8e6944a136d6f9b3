//! Quota, usage and loans of each project.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::time::Time;

/// Quota, usage and loans of one project, in GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaRow {
    /// Name of the project.
    pub project: String,
    /// Parent project.
    pub parent: Option<String>,
    /// Number of projects above it.
    pub depth: u32,
    /// Whether it is a department: it has children and takes no jobs.
    pub department: bool,
    /// Guaranteed GPUs: a number, or `"unlimited"`.
    pub guaranteed: Quantity,
    /// Maximum GPUs. `null` for no limit.
    pub limit: Option<Quantity>,
    /// Fair share in this cycle, for the current demand. `null` if projects share no capacity.
    pub share: Option<f64>,
    /// Allocated GPUs.
    pub held: f64,
    /// Allocated GPUs within the guarantee.
    pub in_quota: f64,
    /// Allocated GPUs over quota. The lending projects can reclaim them.
    pub on_loan: f64,
    /// Allocated GPUs that the scheduler can never reclaim.
    pub for_good: f64,
    /// Decayed usage in GPU-hours: half of it counts after each half-life of the policy.
    pub used: f64,
    /// Loans from other projects.
    pub borrows: Vec<QuotaLoan>,
    /// Loans to other projects.
    pub lends: Vec<QuotaLoan>,
    /// Quotas by model and by pool: those set for this project, and those guaranteed to other
    /// projects if this project uses such GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<QuotaPart>,
    /// Number of jobs that wait for capacity.
    pub n_pending: u64,
    /// GPUs that these jobs request.
    pub pending: f64,
}

/// Quota and usage of a project for the GPUs of one model, or in one pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaPart {
    /// GPU model, as in quotas. `null` for a pool.
    pub model: Option<String>,
    /// Pool. `null` for a model.
    pub pool: Option<String>,
    /// Guaranteed GPUs: a number, or `"unlimited"`. `null` if no project has a guarantee.
    pub guaranteed: Option<Quantity>,
    /// Maximum GPUs. `null` for no limit.
    pub limit: Option<Quantity>,
    /// Fair share in this cycle. `null` if no project has a guarantee, or projects share no
    /// capacity.
    pub share: Option<f64>,
    /// Allocated GPUs.
    pub held: f64,
}

/// A loan between two projects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaLoan {
    /// The other project. `null` for GPUs without a guarantee.
    pub project: Option<String>,
    /// Number of GPUs.
    pub gpus: f64,
    /// Whether the lending project can reclaim all of these GPUs.
    pub when_asked: bool,
    /// Time at which the borrowing jobs end by themselves. `null` if unknown.
    pub until: Option<Time>,
    /// Source of `until`: `limit` if time limits alone, otherwise `predicted`.
    pub basis: Option<String>,
}

/// GPUs that a victim releases for another job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaReturn {
    /// ID of the victim.
    pub job: String,
    /// User of the victim.
    pub user: String,
    /// Project of the victim.
    pub project: String,
    /// GPUs that the victim releases.
    pub gpus: Vec<ReturnedGpu>,
    /// ID of the job that gets the GPUs.
    pub beneficiary: String,
    /// Project of that job. `null` if the job no longer exists.
    pub beneficiary_project: Option<String>,
    /// Latest time at which the GPUs are free: the server then kills the victim.
    pub until: Time,
}

/// A GPU that a victim releases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReturnedGpu {
    /// Name of the node.
    pub node: String,
    /// Index of the GPU on its node.
    pub gpu: u32,
}

/// Quota, usage and loans of all projects at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaOverview {
    /// All projects, each department before its children.
    pub projects: Vec<QuotaRow>,
    /// Number of GPUs that jobs can use.
    pub gpus: f64,
    /// Whether projects share capacity.
    pub shared: bool,
    /// GPUs that victims release, by job ID.
    pub returns: Vec<QuotaReturn>,
    /// Warnings about the quotas.
    pub warnings: Vec<String>,
}
