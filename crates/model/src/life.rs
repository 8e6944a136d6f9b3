//! Options for when a job may start, its retries, and how it may be evicted.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::exit::{Checkpoint, Exit};
use crate::job::dependency::Dependency;
use crate::job::end::{EndCause, ExitStatus, Outcome};
use crate::kind::Habits;
use crate::lease::OnNodeLost;
use crate::rare::Rare;
use crate::unit::{Millis, Timestamp};

/// Options for the start, retries and eviction of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Life {
    /// At least one of these jobs must have ended as required before it may start.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub after_one: Rare<Vec<Dependency>>,
    /// The reaction to a dependency that can never be met.
    #[serde(skip_serializing_if = "OnUnmet::is_cancel")]
    pub on_unmet: OnUnmet,
    /// It does not start before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// It must have ended by this time: it does not start too late for that, and is ended then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// A signal some time before its end.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub warning: Rare<Option<Warning>>,
    /// When it runs again by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<Retry>>,
    /// Whether it may be requeued beyond its retries: `None` only when a user requeues it,
    /// `Some(true)` also after its node failed, `Some(false)` never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue: Option<bool>,
    /// What happens to it when its node is lost.
    #[serde(skip_serializing_if = "OnNodeLost::is_wait")]
    pub on_node_lost: OnNodeLost,
    /// Whether it may be evicted for other jobs, and so whether its project may be over quota with
    /// it. `None` is the default of its project, and `false` once it was admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// The allowed exits, if it is preemptible; with none it is requeued.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub exits: Rare<BTreeSet<Exit>>,
    /// How it is asked to save its state.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub checkpoint: Rare<Option<Checkpoint>>,
    /// Its kind, and how it uses its GPUs over time.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub habits: Rare<Habits>,
}

impl Life {
    /// Whether everything has its default.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The same without dependencies and times to wait for.
    #[must_use]
    pub fn without_waits(&self) -> Self {
        Self {
            after_one: Rare::default(),
            on_unmet: OnUnmet::default(),
            begin: None,
            deadline: None,
            ..self.clone()
        }
    }
}

impl Life {
    /// The exits that the job allows; none if it is not preemptible.
    #[must_use]
    pub fn allowed_exits(&self) -> BTreeSet<Exit> {
        if self.preemptible != Some(true) {
            return BTreeSet::new();
        }
        let mut allowed = match self.exits.is_empty() {
            true => BTreeSet::from([Exit::usual()]),
            false => (*self.exits).clone(),
        };
        // A job that frees its GPUs itself waits for them afterwards.
        allowed.extend(self.habits.yields.map(|_| Exit::Pause));
        allowed
    }

    /// Whether the job allows this exit.
    #[must_use]
    pub fn allows(&self, exit: Exit) -> bool {
        self.preemptible == Some(true)
            && (self.exits.contains(&exit)
                || self.exits.is_empty() && exit.is_usual()
                || exit == Exit::Pause && self.habits.yields.is_some())
    }

    /// The error in the reaction to the loss of its node, with a correction.
    #[must_use]
    pub fn wrong_on_node_lost(&self) -> Option<&'static str> {
        let is_wrong = self.on_node_lost == OnNodeLost::Requeue && self.requeue == Some(false);
        is_wrong.then_some(
            "it can't be requeued (--no-requeue); write --on-node-lost end, or leave --no-requeue \
             out",
        )
    }

    /// The error in the requested exits, with a correction.
    #[must_use]
    pub fn wrong_exits(&self) -> Option<&'static str> {
        if self.preemptible == Some(false) && !self.exits.is_empty() {
            return Some(
                "--no-preemptible never lets it be preempted, so it needs none; leave one of them \
                 out",
            );
        }
        let allowed = self.allowed_exits();
        if self.requeue == Some(false) && allowed.iter().any(|exit| exit.runs_again()) {
            return Some(
                "it can't be requeued (--no-requeue); allow pause,kill, or leave --no-requeue out",
            );
        }
        if allowed.len() == 1 && allowed.contains(&Exit::Pause) {
            return Some("pause is not always possible; add another way: pause,requeue");
        }
        None
    }
}

/// The reaction of a job to a dependency that can never be met.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OnUnmet {
    /// The job ends.
    #[default]
    Cancel,
    /// It waits until it is edited or cancelled.
    Keep,
}

impl OnUnmet {
    fn is_cancel(&self) -> bool {
        *self == Self::Cancel
    }
}

/// A signal that a job gets some time before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Warning {
    /// The signal's number.
    pub signal: i32,
    /// How long before the end.
    pub before: Millis,
    /// The processes that get it.
    #[serde(default, skip_serializing_if = "Warned::is_usual")]
    pub to: Warned,
}

/// The processes of a job that get a signal before its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warned {
    /// The process group of its command.
    #[default]
    Group,
    /// Only the process of its command or script.
    Command,
    /// All of the group except that process; if there are no others, that process.
    Others,
}

impl Warned {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_usual(&self) -> bool {
        *self == Self::Group
    }

    /// The letter before the signal, as users write it.
    #[must_use]
    pub fn letter(self) -> Option<char> {
        match self {
            Self::Group => None,
            Self::Command => Some('B'),
            Self::Others => Some('S'),
        }
    }
}

/// When a job runs again by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retry {
    /// The most retries.
    pub most: u32,
    /// The kinds of ends after which it runs again. With neither kinds nor exit codes: every kind
    /// except [`RetryOn::Oom`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub on: BTreeSet<RetryOn>,
    /// The exit codes after which it runs again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub exits: BTreeSet<i32>,
    /// The wait before the first retry; it doubles with each retry.
    #[serde(default)]
    pub backoff: Millis,
}

impl Retry {
    /// The longest wait before an attempt, unless the user asked for a longer one.
    pub const BACKOFF_MOST: Millis = Millis::from_hours(1);

    /// Whether the job runs again after such an end.
    #[must_use]
    pub fn covers(
        &self,
        outcome: Outcome,
        cause: Option<&EndCause>,
        exit: Option<ExitStatus>,
    ) -> bool {
        let is_exit = match exit {
            Some(ExitStatus::Code(code)) => self.exits.contains(&code),
            Some(ExitStatus::Signal(_)) | None => false,
        };
        let kind = match (outcome, cause) {
            (Outcome::Failed, Some(EndCause::Oom)) => RetryOn::Oom,
            (Outcome::Failed, _) => RetryOn::Fail,
            (Outcome::TimedOut, Some(EndCause::TimeLimit)) => RetryOn::Timeout,
            (Outcome::Lost, _) => RetryOn::Lost,
            (Outcome::Succeeded | Outcome::Cancelled | Outcome::TimedOut, _) => {
                return is_exit && outcome == Outcome::Succeeded;
            }
        };
        let says_nothing = self.on.is_empty() && self.exits.is_empty();
        is_exit || self.on.contains(&kind) || (says_nothing && kind != RetryOn::Oom)
    }

    /// The wait before the next attempt after `n_used` retries.
    #[must_use]
    pub fn pause(&self, n_used: u32) -> Millis {
        let doubled = 1u64.checked_shl(n_used.min(63)).unwrap_or(u64::MAX);
        let pause = self.backoff.get().saturating_mul(doubled);
        Millis::new(pause).min(Self::BACKOFF_MOST.max(self.backoff))
    }
}

/// A kind of end after which a job may run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// It failed by itself or could not be started; not for lack of memory.
    Fail,
    /// It reached its time limit.
    Timeout,
    /// It ran out of memory.
    Oom,
    /// Its end is unknown.
    Lost,
}

impl RetryOn {
    /// Every kind with its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("fail", Self::Fail),
        ("timeout", Self::Timeout),
        ("oom", Self::Oom),
        ("lost", Self::Lost),
    ];
}
