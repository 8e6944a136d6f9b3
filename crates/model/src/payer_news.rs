//! The news about a project or user: a budget that is nearly or fully used, and the digest of a
//! week. The server computes both; the state machine decides whether they are sent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetStep, MonthSpending, Payer};
use crate::id::JobId;
use crate::job::owner::Owner;
use crate::price::Money;
use crate::unit::{GpuTime, Millis, Timestamp};

/// The news about a project or user, for a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayerNews {
    /// The project or user.
    pub payer: Payer,
    /// The user that set the subscription. The key of this user signs the message.
    pub owner: Owner,
    /// The time of the news.
    pub at: Timestamp,
    /// The event.
    pub event: PayerEvent,
}

impl PayerNews {
    /// A text that tells the news of a payer apart, for the ID of a message: letters, digits, and
    /// `._-%`.
    #[must_use]
    pub fn id(&self) -> String {
        let what = match &self.event {
            PayerEvent::Budget(reached) => format!("budget{}", reached.step.percent()),
            PayerEvent::Digest(_) => "digest".to_owned(),
        };
        let (kind, name) = (self.payer.kind(), escaped(self.payer.name()));
        format!("{kind}_{name}_{what}_{}", self.at.get())
    }
}

/// Names of network users have an `@`, which no mail header may have in an ID.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// An event of a project or user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayerEvent {
    /// The cost of this month reached a step of the budget.
    Budget(BudgetReached),
    /// The summary of a week.
    Digest(Box<Digest>),
}

/// A step of a budget that the cost of a month reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReached {
    /// The step.
    pub step: BudgetStep,
    /// The cost and the budget.
    pub spending: MonthSpending,
}

/// The summary of the use of GPUs by a project or user over a range, mostly a week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// The project or user.
    pub payer: Payer,
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range.
    pub to: Timestamp,
    /// Allocated GPU time.
    pub allocated: GpuTime,
    /// GPU time with running kernels; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<GpuTime>,
    /// Measured allocated GPU time without running kernels; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<GpuTime>,
    /// The cost of the range; `None` without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// The currency; empty without prices.
    #[serde(default)]
    pub currency: Arc<str>,
    /// The budget and the cost of the month up to now; `None` without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub month: Option<MonthSpending>,
    /// The number of jobs that ended in the range; an array is one job.
    pub n_ended: u64,
    /// How many of them failed, were lost, or reached their time limit.
    pub n_failed: u64,
    /// The waits of those that started; `None` if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// The jobs with the most unused GPU time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wasteful: Vec<WastefulJob>,
}

impl Digest {
    /// The most jobs that a digest names.
    pub const WASTEFUL_MAX: usize = 3;

    /// Whether the project or user used nothing: no GPU time, and no job ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allocated.is_zero() && self.n_ended == 0
    }
}

/// How long jobs waited from submission to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// The median.
    pub median: Millis,
    /// The longest.
    pub longest: Millis,
}

/// A job with unused GPU time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WastefulJob {
    /// The job.
    pub job: JobId,
    /// Its name; only in the digest of its user, since the name is private.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Its user.
    pub user: Arc<str>,
    /// The GPU time that it held.
    pub held: GpuTime,
    /// The part without running kernels.
    pub idle: GpuTime,
    /// The unused part of its request: `it used at most 10 GiB of 80 GiB of GPU memory`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<Arc<str>>,
    /// The flags of a request that would have been enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enough: Vec<Arc<str>>,
}
