//! How the scheduler decides. A preset sets every field, so nothing is decided by an absence.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::PoolName;
use crate::unit::{GpuTime, MilliGpu, Millis};

/// All that the scheduler and admission may vary by configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The preset it started from.
    pub preset: String,
    /// Order of jobs, compared left to right; then age and the job id decide, always.
    pub order: Vec<OrderKey>,
    /// After how long a wait a job goes before those that have not waited so long.
    pub escalate_after: Millis,
    /// Which whole devices of a node are given out first.
    pub device_strategy: DeviceStrategy,
    /// Highest priority that a user may ask for; admins may ask for any.
    pub user_priority_max: i32,
    /// How many jobs that wait for room have a time and place kept for them.
    #[serde(default = "PlannedStarts::one")]
    pub planned_starts: PlannedStarts,
    /// By how much a user may make the time limits of running jobs of his longer, all in all;
    /// admins may without end.
    #[serde(default = "Policy::extend_max", skip_serializing_if = "is_extend_max")]
    pub user_extend_max: Millis,
    /// How long a job has at most to save and to end when it is taken back for another.
    #[serde(default = "Policy::save_max", skip_serializing_if = "is_save_max")]
    pub save_time_max: Millis,
    /// How much one user may have at once.
    #[serde(default, skip_serializing_if = "UserCaps::is_none")]
    pub user_caps: UserCaps,
    /// Between whom the cluster is shared.
    #[serde(default = "ShareBetween::projects")]
    pub share_between: ShareBetween,
    /// Whether projects may have more than they are guaranteed, of what others leave idle.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub lend: bool,
    /// After how long half of what was used counts.
    #[serde(default = "Policy::usual_half_life", skip_serializing_if = "is_usual_half_life")]
    pub use_half_life: Millis,
    /// How strongly what projects used lately moves what they get of what nobody is guaranteed, in
    /// thousandths; nothing is not at all.
    #[serde(default, skip_serializing_if = "is_none")]
    pub use_weight: u32,
    /// Whether devices are given only to those for whom they are reserved.
    #[serde(default, skip_serializing_if = "is_no")]
    pub reserved_only: bool,
    /// Where the order asks how much GPU-time jobs have had: the bounds between its levels, the
    /// least first.
    #[serde(default = "Policy::usual_levels", skip_serializing_if = "are_usual_levels")]
    pub attained_levels: Vec<GpuTime>,
    /// For how long a job that was started is left to run before it gives way to one that has had
    /// less GPU-time.
    #[serde(default = "Policy::usual_min_run", skip_serializing_if = "is_usual_min_run")]
    pub min_run: Millis,
    /// Whether jobs that save their work are moved so that a larger one finds room on a node.
    #[serde(default, skip_serializing_if = "is_no")]
    pub consolidate: bool,
    /// Of pools that have a policy of their own: in which order jobs that name the pool are
    /// considered, and how they are placed. What is said of users and projects is said for all of
    /// the cluster, and stands in these as it does in this one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<PoolName, Policy>,
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

/// Between whom a cluster is shared; each has what he is guaranteed, and his part of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareBetween {
    /// All jobs stand in one order, whoever's they are.
    Nobody,
    /// Projects.
    Projects,
    /// Projects, and what each has between its users, equally.
    Users,
}

impl ShareBetween {
    /// Every way with its word.
    pub const ALL: [(&'static str, Self); 3] =
        [("nobody", Self::Nobody), ("projects", Self::Projects), ("users", Self::Users)];

    /// What a policy has that does not say.
    #[must_use]
    pub fn projects() -> Self {
        Self::Projects
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Projects => "projects",
            Self::Users => "users",
        }
    }
}

/// How many jobs may have a planned start at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedStarts {
    /// Jobs that are escalated or the first of their priority, so many at most.
    AtMost(u32),
    /// Every job that waits for room, one after another: conservative backfill.
    All,
}

impl PlannedStarts {
    /// What a policy has that does not say.
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

    /// Shared between projects; small jobs first, old ones escalated, lowest device index first.
    #[must_use]
    pub fn fair() -> Self {
        use OrderKey::{Age, Escalated, Gpus, Priority};
        let policy = Self::of("fair", vec![Priority, Escalated, Gpus, Age]);
        Self { share_between: ShareBetween::Projects, ..policy }
    }

    /// Small jobs first whatever their priority, those that have waited for an hour before them.
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

    /// As `fair`, and what a project has is shared between its users. Jobs escalate later, because
    /// an escalated job also moves its user forward among the others.
    #[must_use]
    pub fn users() -> Self {
        let (share_between, escalate_after) = (ShareBetween::Users, Millis::from_hours(32));
        Self { preset: "users".to_owned(), share_between, escalate_after, ..Self::fair() }
    }

    /// As `fair` without loans: a project has what it is guaranteed, and no more.
    #[must_use]
    pub fn fixed() -> Self {
        Self { preset: "fixed".to_owned(), lend: false, ..Self::fair() }
    }

    /// Devices are for those for whom an admin reserved them.
    #[must_use]
    pub fn by_reservation() -> Self {
        use OrderKey::{Age, Escalated, Gpus, Priority};
        let policy = Self::of("static", vec![Priority, Escalated, Gpus, Age]);
        Self { reserved_only: true, ..policy }
    }

    /// Whoever has had least GPU-time goes first, before others that run and have had more; one
    /// that has waited for long starts anew.
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
            pools: BTreeMap::new(),
        }
    }

    /// Whether projects have shares; else all jobs stand in one order, and of what is said of
    /// projects only their limits hold.
    #[must_use]
    pub fn shares(&self) -> bool {
        self.share_between != ShareBetween::Nobody
    }

    /// Whether it matters for when a job starts whose it is.
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

    /// Whether of equals who used less lately goes first.
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

/// How much each user may have at once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserCaps {
    /// Of users that are not named.
    #[serde(skip_serializing_if = "Caps::is_none")]
    pub all: Caps,
    /// Of users by name, in place of those of all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub of: BTreeMap<Arc<str>, Caps>,
}

impl UserCaps {
    /// Whether nobody is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Of one user.
    #[must_use]
    pub fn of(&self, user: &str) -> Caps {
        self.of.get(user).copied().unwrap_or(self.all)
    }
}

/// How much one user may have at once; `None` is without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// Jobs that hold something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_jobs: Option<u64>,
    /// Jobs that wait, whatever for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_jobs: Option<u64>,
    /// GPUs that are held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<MilliGpu>,
}

impl Caps {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether what users hold is limited, beside what of theirs waits.
    #[must_use]
    pub fn limits_held(&self) -> bool {
        self.running_jobs.is_some() || self.gpus.is_some()
    }

    /// What of it would be too much if that were added to what is held: which cap, what is held,
    /// and the most.
    #[must_use]
    pub fn exceeded(&self, held: Held, more: MilliGpu) -> Option<(UserCap, u64, u64)> {
        if let Some(most) = self.running_jobs.filter(|most| held.jobs >= *most) {
            return Some((UserCap::RunningJobs, held.jobs, most));
        }
        let sum = held.gpus.saturating_add(more);
        let most = self.gpus.filter(|most| !more.is_zero() && sum > *most)?;
        Some((UserCap::Gpus, held.gpus.get(), most.get()))
    }
}

/// What a user's jobs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Held {
    /// How many they are.
    pub jobs: u64,
    /// How much of devices.
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

/// One key of the order of jobs.
///
/// Source: the small-first-with-escalation order was measured on the Philly trace of 2017.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKey {
    /// Higher first.
    Priority,
    /// Jobs that have waited for `escalate_after` go first; among them the oldest, whatever
    /// their size.
    Escalated,
    /// Shorter expected GPU-time first, from how long like jobs ran; without any, from the time
    /// limit; with neither, last.
    Predicted,
    /// Less GPU-time had first, by the levels of the policy; an escalated job is at the first.
    Attained,
    /// Fewer GPUs of the whole gang first.
    Gpus,
    /// Earlier submission first.
    Age,
}

impl OrderKey {
    /// Every key with its word.
    pub const ALL: [(&'static str, Self); 6] = [
        ("priority", Self::Priority),
        ("escalated", Self::Escalated),
        ("predicted", Self::Predicted),
        ("attained", Self::Attained),
        ("gpus", Self::Gpus),
        ("age", Self::Age),
    ];

    /// The word for it.
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

/// Which whole devices of a node are given out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceStrategy {
    /// Lowest index.
    Sequential,
    /// By chance, the same for the same job and attempt.
    Random,
    /// Beside devices that are in use, so that groups of linked devices stay whole.
    Pack,
    /// Far from devices that are in use, so that jobs share as few links as may be.
    Spread,
}

impl DeviceStrategy {
    /// Every strategy with its word.
    pub const ALL: [(&'static str, Self); 4] = [
        ("sequential", Self::Sequential),
        ("random", Self::Random),
        ("pack", Self::Pack),
        ("spread", Self::Spread),
    ];
}
