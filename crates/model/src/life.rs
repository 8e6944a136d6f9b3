//! What a user asks of a job's life: when it may start, retries after its end, and how it may be
//! evicted.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::exit::{Checkpoint, Exit};
use crate::job::dependency::Dependency;
use crate::job::end::{EndCause, ExitStatus, Outcome};
use crate::rare::Rare;
use crate::unit::{Millis, Timestamp};

/// What a user may ask of a job's life beside its time limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Life {
    /// Jobs of which one must have ended so before it may start.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub after_one: Rare<Vec<Dependency>>,
    /// What becomes of it if what it waits for can never be.
    #[serde(skip_serializing_if = "OnUnmet::is_cancel")]
    pub on_unmet: OnUnmet,
    /// Not before then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// It must have ended by then: it is not started too late for that, and ended then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// A signal some time before its time is over.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub warning: Rare<Option<Warning>>,
    /// When it is run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<Retry>>,
    /// Whether it may be put back and run again although its user's retries are used up: `None`
    /// only if somebody asks for it, `Some(true)` also after its node failed, `Some(false)` never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue: Option<bool>,
    /// Whether what it holds may be taken back for others, and so whether it may use more than its
    /// project is guaranteed. `None` is what its project says, and `false` once it was admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// In which ways it may be taken back, if it may be; with none it is run again.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub exits: Rare<BTreeSet<Exit>>,
    /// How it is told to save what it has.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub checkpoint: Rare<Option<Checkpoint>>,
}

impl Life {
    /// Whether nothing of it was asked.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The same without all that the job waited for.
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
    /// In which ways the job may be taken back; none if it may not be.
    #[must_use]
    pub fn allowed_exits(&self) -> BTreeSet<Exit> {
        if self.preemptible != Some(true) {
            return BTreeSet::new();
        }
        match self.exits.is_empty() {
            true => BTreeSet::from([Exit::usual()]),
            false => (*self.exits).clone(),
        }
    }

    /// Whether the job may be taken back in that way.
    #[must_use]
    pub fn allows(&self, exit: Exit) -> bool {
        self.preemptible == Some(true)
            && (self.exits.contains(&exit) || self.exits.is_empty() && exit.is_usual())
    }

    /// What is wrong with the exits that are asked for, with what would be right.
    #[must_use]
    pub fn wrong_exits(&self) -> Option<&'static str> {
        if self.preemptible == Some(false) && !self.exits.is_empty() {
            return Some("they say how it is taken back, and --no-preemptible that it never is");
        }
        let allowed = self.allowed_exits();
        if self.requeue == Some(false) && allowed.iter().any(|exit| exit.runs_again()) {
            return Some(
                "it is never run again (--no-requeue); allow pause,kill, or leave that out",
            );
        }
        if allowed.len() == 1 && allowed.contains(&Exit::Pause) {
            return Some("not every node can pause it at any time; say what else: pause,requeue");
        }
        None
    }
}

/// What becomes of a job if what it waits for can never be.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OnUnmet {
    /// It ends.
    #[default]
    Cancel,
    /// It stays until it is edited or cancelled.
    Keep,
}

impl OnUnmet {
    fn is_cancel(&self) -> bool {
        *self == Self::Cancel
    }
}

/// A signal that a job is sent some time before its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Warning {
    /// The signal's number.
    pub signal: i32,
    /// How long before.
    pub before: Millis,
    /// Which of its processes get it.
    #[serde(default, skip_serializing_if = "Warned::is_usual")]
    pub to: Warned,
}

/// Which processes of a job a signal before its end is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warned {
    /// All of the process group of its command.
    #[default]
    Group,
    /// The process of its command or script alone.
    Command,
    /// All of the group but that process; if there are no others, that one.
    Others,
}

impl Warned {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_usual(&self) -> bool {
        *self == Self::Group
    }

    /// The letter before a signal, as users write it.
    #[must_use]
    pub fn letter(self) -> Option<char> {
        match self {
            Self::Group => None,
            Self::Command => Some('B'),
            Self::Others => Some('S'),
        }
    }
}

/// When a job is run again by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retry {
    /// How often at most.
    pub most: u32,
    /// After which ends; with no exit codes and none of these, after each that is its own.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub on: BTreeSet<RetryOn>,
    /// After which exit codes as well.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub exits: BTreeSet<i32>,
    /// How long it waits the first time; twice as long each time after.
    #[serde(default)]
    pub backoff: Millis,
}

impl Retry {
    /// It never waits longer than this between two attempts, unless it was asked to.
    pub const BACKOFF_MOST: Millis = Millis::from_hours(1);

    /// Whether such an end is one after which it is run again.
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

    /// How long it waits before the next attempt after so many.
    #[must_use]
    pub fn pause(&self, n_used: u32) -> Millis {
        let doubled = 1u64.checked_shl(n_used.min(63)).unwrap_or(u64::MAX);
        let pause = self.backoff.get().saturating_mul(doubled);
        Millis::new(pause).min(Self::BACKOFF_MOST.max(self.backoff))
    }
}

/// A kind of end after which a job may be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// It failed by itself, or could not be started; not for its memory.
    Fail,
    /// It ran into its time limit.
    Timeout,
    /// It ran out of memory.
    Oom,
    /// Nobody can say how it ended.
    Lost,
}

impl RetryOn {
    /// Every kind with its word.
    pub const ALL: [(&'static str, Self); 4] = [
        ("fail", Self::Fail),
        ("timeout", Self::Timeout),
        ("oom", Self::Oom),
        ("lost", Self::Lost),
    ];
}
