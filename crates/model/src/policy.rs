//! The policy of the scheduler. A preset sets every field, so no field depends on a hidden default.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::{Budgets, OverBudget, Overspent};
use crate::id::PoolName;
use crate::kind::OnIdle;
use crate::over_limit::OverLimit;
use crate::price::{PastPrices, Prices};
use crate::sharer::ShareWith;
use crate::unit::{GpuTime, MilliGpu, Millis};

/// All settings of the scheduler and of admission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The preset it started from.
    pub preset: String,
    /// The queue order: keys compared left to right; age and job ID break ties.
    pub order: Vec<OrderKey>,
    /// The wait after which a job is escalated before jobs that have waited less.
    pub escalate_after: Millis,
    /// How the scheduler chooses whole devices of a node.
    pub device_strategy: DeviceStrategy,
    /// Highest priority of users' jobs; admins may set any.
    pub user_priority_max: i32,
    /// The number of jobs with a planned start.
    #[serde(default = "PlannedStarts::one")]
    pub planned_starts: PlannedStarts,
    /// The most by which users may extend a running job in total; admins have no limit.
    #[serde(default = "Policy::extend_max", skip_serializing_if = "is_extend_max")]
    pub user_extend_max: Millis,
    /// The longest time that a victim gets to save its state and end.
    #[serde(default = "Policy::save_max", skip_serializing_if = "is_save_max")]
    pub save_time_max: Millis,
    /// The caps of users.
    #[serde(default, skip_serializing_if = "UserCaps::is_none")]
    pub user_caps: UserCaps,
    /// How the cluster is shared.
    #[serde(default = "ShareBetween::projects")]
    pub share_between: ShareBetween,
    /// Whether projects may exceed their guarantees with capacity that others leave idle.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub lend: bool,
    /// The half-life of usage.
    #[serde(default = "Policy::usual_half_life", skip_serializing_if = "is_usual_half_life")]
    pub use_half_life: Millis,
    /// How strongly recent usage lowers a project's share of the capacity without a guarantee, in
    /// thousandths; 0 turns it off.
    #[serde(default, skip_serializing_if = "is_none")]
    pub use_weight: u32,
    /// Whether jobs may only use devices that are reserved for them.
    #[serde(default, skip_serializing_if = "is_no")]
    pub reserved_only: bool,
    /// If the queue order uses attained GPU time: the bounds between its levels, ascending.
    #[serde(default = "Policy::usual_levels", skip_serializing_if = "are_usual_levels")]
    pub attained_levels: Vec<GpuTime>,
    /// The minimum run time of a job before one with less attained GPU time preempts it.
    #[serde(default = "Policy::usual_min_run", skip_serializing_if = "is_usual_min_run")]
    pub min_run: Millis,
    /// Whether jobs that save their state are moved so that a larger job fits on a node.
    #[serde(default, skip_serializing_if = "is_no")]
    pub consolidate: bool,
    /// Whether the server creates and destroys MIG instances by the demand of waiting jobs.
    #[serde(default, skip_serializing_if = "is_no")]
    pub mig_auto: bool,
    /// The jobs that a job accepts on its devices unless its own request says so.
    #[serde(default, skip_serializing_if = "ShareWith::is_anyone")]
    pub share_with: ShareWith,
    /// What happens to jobs that do not use their GPUs.
    #[serde(default, skip_serializing_if = "OnIdle::is_report")]
    pub idle: OnIdle,
    /// The action on jobs that use more GPU memory than their limit.
    #[serde(default, skip_serializing_if = "OverLimit::is_report")]
    pub over_limit: OverLimit,
    /// Prices of GPU time and energy, for reports.
    #[serde(default, skip_serializing_if = "Prices::is_none")]
    pub prices: Prices,
    /// Earlier prices, oldest first.
    #[serde(default, skip_serializing_if = "has_none")]
    pub past_prices: Arc<Vec<PastPrices>>,
    /// Budgets of a month.
    #[serde(default, skip_serializing_if = "Budgets::is_none")]
    pub budgets: Budgets,
    /// The action on jobs when their budget is used up.
    #[serde(default, skip_serializing_if = "OverBudget::is_warn")]
    pub over_budget: OverBudget,
    /// The budgets that are used up and hold jobs, as the server last reported.
    #[serde(default, skip_serializing_if = "has_none")]
    pub overspent: Arc<Vec<Overspent>>,
    /// Policies of single pools: the queue order and placement of jobs that name the pool. Settings
    /// about users and projects apply to the whole cluster and are the same in all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<PoolName, Policy>,
}

fn has_none<T>(list: &Arc<Vec<T>>) -> bool {
    list.is_empty()
}

fn yes() -> bool {
    true
}

fn is_yes(answer: &bool) -> bool {
    *answer
}

fn is_no(answer: &bool) -> bool {
    !*answer
}

/// How a cluster is shared: each project or user has its guarantee and its part of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareBetween {
    /// All jobs are in one queue order, whatever their project.
    Nobody,
    /// Between projects.
    Projects,
    /// Between projects, and within each project equally between its users.
    Users,
}

impl ShareBetween {
    /// Every value with its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("nobody", Self::Nobody), ("projects", Self::Projects), ("users", Self::Users)];

    /// The default of policies that do not set it.
    #[must_use]
    pub fn projects() -> Self {
        Self::Projects
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Projects => "projects",
            Self::Users => "users",
        }
    }
}

/// The limit on jobs with a planned start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedStarts {
    /// At most this many, for jobs that are escalated or first of their priority.
    AtMost(u32),
    /// Every job that waits for capacity, in queue order: conservative backfill.
    All,
}

impl PlannedStarts {
    /// The default of policies that do not set it.
    #[must_use]
    pub fn one() -> Self {
        Self::AtMost(1)
    }
}

fn is_usual_half_life(span: &Millis) -> bool {
    *span == Policy::usual_half_life()
}

fn is_none(weight: &u32) -> bool {
    *weight == 0
}

fn are_usual_levels(levels: &[GpuTime]) -> bool {
    *levels == Policy::usual_levels()
}

fn is_usual_min_run(span: &Millis) -> bool {
    *span == Policy::usual_min_run()
}

fn is_extend_max(span: &Millis) -> bool {
    *span == Policy::extend_max()
}

fn is_save_max(span: &Millis) -> bool {
    *span == Policy::save_max()
}

impl Policy {
    /// The policy of a new server: `users`.
    #[must_use]
    pub fn of_new_server() -> Self {
        Self::users()
    }

    /// Fair share between projects; small jobs first, old ones escalated, lowest device index
    /// first.
    #[must_use]
    pub fn fair() -> Self {
        use OrderKey::{Age, Escalated, Gpus, Priority};
        let policy = Self::of("fair", vec![Priority, Escalated, Gpus, Age]);
        Self { share_between: ShareBetween::Projects, ..policy }
    }

    /// Small jobs first, regardless of priority; jobs that have waited for an hour before them.
    #[must_use]
    pub fn valohai() -> Self {
        use OrderKey::{Age, Escalated, Gpus};
        let policy = Self::of("valohai", vec![Escalated, Gpus, Age]);
        Self { escalate_after: Millis::from_hours(1), ..policy }
    }

    /// First come, first served.
    #[must_use]
    pub fn fifo() -> Self {
        Self::of("fifo", vec![OrderKey::Age])
    }

    /// By priority, then first come, first served.
    #[must_use]
    pub fn priority() -> Self {
        Self::of("priority", vec![OrderKey::Priority, OrderKey::Age])
    }

    /// Like `fair`, with each project's share divided between its users. Jobs escalate later,
    /// because an escalated job also moves its user ahead of others.
    #[must_use]
    pub fn users() -> Self {
        let (share_between, escalate_after) = (ShareBetween::Users, Millis::from_hours(32));
        Self { preset: "users".to_owned(), share_between, escalate_after, ..Self::fair() }
    }

    /// Like `fair` without borrowing: a project has its guarantee and no more.
    #[must_use]
    pub fn fixed() -> Self {
        Self { preset: "fixed".to_owned(), lend: false, ..Self::fair() }
    }

    /// Jobs may only use devices that an admin reserved for them.
    #[must_use]
    pub fn by_reservation() -> Self {
        use OrderKey::{Age, Escalated, Gpus, Priority};
        let policy = Self::of("static", vec![Priority, Escalated, Gpus, Age]);
        Self { reserved_only: true, ..policy }
    }

    /// Jobs with the least attained GPU time go first and preempt those with more; a job that has
    /// waited long starts again from zero.
    #[must_use]
    pub fn las() -> Self {
        use OrderKey::{Age, Attained, Priority};
        let policy = Self::of("las", vec![Priority, Attained, Age]);
        let share_between = ShareBetween::Projects;
        Self { escalate_after: Millis::from_hours(6), share_between, consolidate: true, ..policy }
    }

    fn of(preset: &str, order: Vec<OrderKey>) -> Self {
        Self {
            preset: preset.to_owned(),
            order,
            escalate_after: Millis::from_hours(24),
            device_strategy: DeviceStrategy::Sequential,
            user_priority_max: 0,
            planned_starts: PlannedStarts::AtMost(1),
            user_extend_max: Self::extend_max(),
            save_time_max: Self::save_max(),
            user_caps: UserCaps::default(),
            share_between: ShareBetween::Nobody,
            lend: true,
            reserved_only: false,
            use_half_life: Self::usual_half_life(),
            use_weight: 0,
            attained_levels: Self::usual_levels(),
            min_run: Self::usual_min_run(),
            consolidate: false,
            mig_auto: false,
            share_with: ShareWith::Anyone,
            idle: OnIdle::default(),
            over_limit: OverLimit::default(),
            prices: Prices::default(),
            past_prices: Arc::default(),
            budgets: Budgets::default(),
            over_budget: OverBudget::default(),
            overspent: Arc::default(),
            pools: BTreeMap::new(),
        }
    }

    /// Whether projects have shares. Otherwise all jobs are in one queue order, and only the limits
    /// of projects apply.
    #[must_use]
    pub fn shares(&self) -> bool {
        self.share_between != ShareBetween::Nobody
    }

    /// Whether the user of a job matters for its start.
    #[must_use]
    pub fn tells_users_apart(&self) -> bool {
        self.share_between == ShareBetween::Users || !self.user_caps.is_none()
    }

    fn usual_levels() -> Vec<GpuTime> {
        [1, 10, 100].map(|hours| GpuTime::new(hours * GpuTime::HOUR.get())).to_vec()
    }

    fn usual_half_life() -> Millis {
        Millis::from_hours(24 * 7)
    }

    fn usual_min_run() -> Millis {
        Millis::from_mins(5)
    }

    /// Whether usage decides between equal projects or users: less recent usage goes first.
    #[must_use]
    pub fn asks_used(&self) -> bool {
        self.use_weight > 0 || self.share_between == ShareBetween::Users
    }

    fn extend_max() -> Millis {
        Millis::from_hours(4)
    }

    fn save_max() -> Millis {
        Millis::from_mins(10)
    }
}

/// The caps of all users.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserCaps {
    /// The caps of users without caps of their own.
    #[serde(skip_serializing_if = "Caps::is_none")]
    pub all: Caps,
    /// The caps of single users, by name; they replace `all`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub of: BTreeMap<Arc<str>, Caps>,
}

impl UserCaps {
    /// Whether no user has a cap.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The caps of one user.
    #[must_use]
    pub fn of(&self, user: &str) -> Caps {
        self.of.get(user).copied().unwrap_or(self.all)
    }
}

/// The caps of one user; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// Jobs with allocations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_jobs: Option<u64>,
    /// Jobs that wait, for any reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_jobs: Option<u64>,
    /// Allocated GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<MilliGpu>,
}

impl Caps {
    /// Whether nothing is capped.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a cap applies to running jobs and not only to waiting ones.
    #[must_use]
    pub fn limits_held(&self) -> bool {
        self.running_jobs.is_some() || self.gpus.is_some()
    }

    /// The cap that would be exceeded by adding `more` to the held resources, the amount held, and
    /// the cap's value.
    #[must_use]
    pub fn exceeded(&self, held: UserHoldings, more: MilliGpu) -> Option<(UserCap, u64, u64)> {
        if let Some(most) = self.running_jobs.filter(|most| held.jobs >= *most) {
            return Some((UserCap::RunningJobs, held.jobs, most));
        }
        let sum = held.gpus.saturating_add(more);
        let most = self.gpus.filter(|most| !more.is_zero() && sum > *most)?;
        Some((UserCap::Gpus, held.gpus.get(), most.get()))
    }
}

/// The resources that a user's jobs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UserHoldings {
    /// The number of jobs.
    pub jobs: u64,
    /// The GPUs.
    pub gpus: MilliGpu,
}

/// One of the caps of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserCap {
    /// See [`Caps::running_jobs`].
    RunningJobs,
    /// See [`Caps::gpus`].
    Gpus,
}

/// One key of the queue order.
///
/// Source: the small-first-with-escalation order was measured on the Philly trace of 2017.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKey {
    /// Higher first.
    Priority,
    /// Jobs that have waited for `escalate_after` first; among them the oldest, regardless of size.
    Escalated,
    /// Shorter expected GPU time first, predicted from the run times of similar jobs; without a
    /// prediction, from the time limit; with neither, last.
    Predicted,
    /// Less attained GPU time first, by the levels of the policy; an escalated job is at the first.
    Attained,
    /// Fewer GPUs of the whole gang first.
    Gpus,
    /// Earlier submission first.
    Age,
}

impl OrderKey {
    /// Every key with its name.
    pub const ALL: [(&'static str, Self); 6] = [
        ("priority", Self::Priority),
        ("escalated", Self::Escalated),
        ("predicted", Self::Predicted),
        ("attained", Self::Attained),
        ("gpus", Self::Gpus),
        ("age", Self::Age),
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Escalated => "escalated",
            Self::Predicted => "predicted",
            Self::Attained => "attained",
            Self::Gpus => "gpus",
            Self::Age => "age",
        }
    }
}

/// How the scheduler chooses whole devices of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceStrategy {
    /// Lowest index.
    Sequential,
    /// Random, but the same for the same job and attempt.
    Random,
    /// Beside devices that are in use, so that groups of linked devices stay free.
    Pack,
    /// Far from devices that are in use, so that jobs share as few links as possible.
    Spread,
}

impl DeviceStrategy {
    /// Every strategy with its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("sequential", Self::Sequential),
        ("random", Self::Random),
        ("pack", Self::Pack),
        ("spread", Self::Spread),
    ];
}
