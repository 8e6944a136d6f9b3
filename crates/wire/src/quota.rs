//! What projects may have and have, and who lends to whom.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Written;
use crate::time::Time;

/// What one project may have and has; amounts are GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaRow {
    /// Which.
    pub project: String,
    /// The project above it.
    pub parent: Option<String>,
    /// How many are above it.
    pub depth: u32,
    /// Whether others are below it, so that it takes no jobs.
    pub department: bool,
    /// What it is guaranteed: a number, or `"unlimited"`.
    pub guaranteed: Written,
    /// What it never exceeds; `null` for no limit.
    pub limit: Option<Written>,
    /// What it may have in this cycle, by what it asks for; `null` where nothing is shared.
    pub share: Option<f64>,
    /// What it holds.
    pub held: f64,
    /// What of that is within its guarantee.
    pub in_quota: f64,
    /// What of that is on loan: it is given back when its owner asks.
    pub on_loan: f64,
    /// What of that can't be taken back whatever happens.
    pub for_good: f64,
    /// GPU-hours that its jobs used lately: of each half counts after the half-life of the policy.
    pub used: f64,
    /// From whom the loan is.
    pub borrows: Vec<QuotaLoan>,
    /// Who uses what it is guaranteed.
    pub lends: Vec<QuotaLoan>,
    /// What it may have and has of parts of the GPUs: those of which anything is agreed with it,
    /// or that others are guaranteed and it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<QuotaPart>,
    /// Jobs that wait for room.
    pub n_pending: u64,
    /// What they ask for.
    pub pending: f64,
}

/// What a project may have and has of the GPUs of one model, or in one pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaPart {
    /// Of which model, as quotas name it; `null` for a pool.
    pub model: Option<String>,
    /// In which pool; `null` for a model.
    pub pool: Option<String>,
    /// What it is guaranteed: a number, or `"unlimited"`; `null` where nobody is guaranteed any.
    pub guaranteed: Option<Written>,
    /// What it never exceeds; `null` for no limit.
    pub limit: Option<Written>,
    /// What it may have in this cycle; `null` where nobody is guaranteed any, and where nothing is
    /// shared.
    pub share: Option<f64>,
    /// What it holds.
    pub held: f64,
}

/// So much of somebody's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaLoan {
    /// The other project; `null` for what nobody is guaranteed.
    pub project: Option<String>,
    /// How many GPUs.
    pub gpus: f64,
    /// Whether all of it is given back when its owner asks for it.
    pub when_asked: bool,
    /// When it is given back by itself, as those who hold it end; `null` if that is not known.
    pub until: Option<Time>,
    /// How `until` is known: `limit` if by time limits alone, else `predicted`.
    pub basis: Option<String>,
}

/// GPUs that a job is giving back to another job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaReturn {
    /// The job that leaves.
    pub job: String,
    /// Its user.
    pub user: String,
    /// Its project.
    pub project: String,
    /// What it gives back.
    pub gpus: Vec<ReturnedGpu>,
    /// The job that gets them.
    pub beneficiary: String,
    /// The project of that job; `null` if that job is gone.
    pub beneficiary_project: Option<String>,
    /// When they are free at the latest: the job is killed then.
    pub until: Time,
}

/// A GPU that is given back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReturnedGpu {
    /// The node it is on.
    pub node: String,
    /// Its index there.
    pub gpu: u32,
}

/// What the projects may have and have at a moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaOverview {
    /// Departments before what is below them.
    pub projects: Vec<QuotaRow>,
    /// GPUs that there are to be held.
    pub gpus: f64,
    /// Whether anything is shared between projects.
    pub shared: bool,
    /// Jobs that are told to leave, by id, and the GPUs that they give back.
    pub returns: Vec<QuotaReturn>,
    /// What should be known.
    pub warnings: Vec<String>,
}
