//! Subscriptions: the addresses that get messages about a project or user. Each has a note of the
//! last messages, so that none is sent twice.

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetStep, MonthSpending, Payer};
use crate::job::owner::Owner;
use crate::notify::{NotifyOn, NotifyRule};
use crate::price::Money;
use crate::unit::Timestamp;

/// The addresses that get messages about a project or user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// The project or user.
    pub payer: Payer,
    /// The addresses with their events.
    pub rules: Vec<NotifyRule>,
    /// The user that set the rules. Messages count as this user's, and their key signs them.
    pub owner: Owner,
    /// The last change of the budget's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetMark>,
    /// The end of the last week with a digest, or the time since which digests are wanted.
    pub digest_until: Timestamp,
}

/// The part of a month's budget that messages have reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetMark {
    /// The start of the month.
    pub month: Timestamp,
    /// The budget.
    pub budget: Money,
    /// The step; `None` if a higher budget took all of them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<BudgetStep>,
}

impl Subscription {
    /// Its key in the store.
    #[must_use]
    pub fn key(&self) -> String {
        self.payer.key()
    }

    /// Whether an address gets this event.
    #[must_use]
    pub fn wants(&self, on: NotifyOn) -> bool {
        self.rules.iter().any(|rule| rule.on.contains(&on))
    }

    /// Whether the digest of the week up to `at` is still to be sent.
    #[must_use]
    pub fn awaits_digest(&self, at: Timestamp) -> bool {
        self.wants(NotifyOn::Digest) && self.digest_until < at
    }

    /// The mark after this spending, if it changes, and the step to report, if there is one. Steps
    /// are reported once in a month; a higher budget takes back those that are no longer reached.
    #[must_use]
    pub fn after(&self, spending: &MonthSpending) -> Option<(BudgetMark, Option<BudgetStep>)> {
        if !self.wants(NotifyOn::Budget) {
            return None;
        }
        let MonthSpending { month, budget, .. } = *spending;
        // A clock that was set back does not begin an earlier month again.
        if self.budget.is_some_and(|mark| mark.month > month) {
            return None;
        }
        let mark = self.budget.filter(|mark| mark.month == month);
        let reported = mark.and_then(|mark| mark.step);
        let is_raised = mark.is_some_and(|mark| budget > mark.budget);
        let step = spending.step();
        let after = BudgetMark { month, budget, step };
        if step > reported {
            return Some((after, step));
        }
        (step < reported && is_raised).then_some((after, None))
    }
}
