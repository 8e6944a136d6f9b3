//! When a job may start, how long it may go on, and what follows its end: what its user asked
//! ([`Life`]) and what came of it so far ([`Course`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::TaskEnd;
use crate::exit::{Checkpoint, Exit};
use crate::hold::AdminHold;
use crate::id::{Attempt, JobId};
use crate::job::{Dependency, EndCause, ExitStatus, JobState, Outcome};
use crate::plan::TakenBack;
use crate::rare::{Rare, Usual};
use crate::unit::{GpuTime, Millis, Timestamp};

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

/// What came of a job so far, beside the phase that it is in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// How many of the retries that its user asked for are used.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_retries: u32,
    /// How often it was run again because its node failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_node_failures: u32,
    /// How its last attempts ended, oldest first; at most [`Course::PAST_MOST`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<PastAttempt>,
    /// It is not run again before then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<Timestamp>,
    /// Whether one of the jobs of which it needs one has ended so.
    #[serde(skip_serializing_if = "is_false")]
    pub one_met: bool,
    /// What it waits for and can never be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Unmet>,
    /// When it is released, if it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_at: Option<Timestamp>,
    /// By how much its user made its time limit longer while it ran.
    #[serde(skip_serializing_if = "is_nothing")]
    pub extended: Millis,
    /// What it has had of devices in attempts that are over.
    #[serde(skip_serializing_if = "has_none")]
    pub attained: GpuTime,
    /// The part of it that no longer counts in the order of jobs, since it waited long after it.
    #[serde(skip_serializing_if = "has_none")]
    pub forgiven: GpuTime,
    /// How long it was paused in this attempt, up to the last time that it went on.
    #[serde(skip_serializing_if = "is_nothing")]
    pub paused: Millis,
    /// What came of each task of a gang in this attempt, by rank. Empty for a job of one task, of
    /// which its phase says it, and for a gang that holds nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskCourse>,
    /// How many have joined it in this attempt, or may still.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_joiners: u32,
    /// The admin that stopped it. It outlives the attempt: the job is held after it, whatever ends
    /// it, until such an admin starts the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_hold: Option<AdminHold>,
}

/// What came of one task of a gang.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCourse {
    /// When it started, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// How it ended, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<TaskEnd>,
}

impl Usual for Course {
    const USUAL: &'static Self = &Self {
        n_retries: 0,
        n_node_failures: 0,
        past: Vec::new(),
        backoff_until: None,
        one_met: false,
        unmet: None,
        release_at: None,
        extended: Millis::ZERO,
        attained: GpuTime::ZERO,
        forgiven: GpuTime::ZERO,
        paused: Millis::ZERO,
        tasks: Vec::new(),
        n_joiners: 0,
        admin_hold: None,
    };
}

impl Course {
    /// So many past attempts are kept.
    pub const PAST_MOST: usize = 32;
    /// After so many failures of nodes its end is its end: it may be what makes them fail.
    pub const NODE_FAILURES_MOST: u32 = 10;

    /// Whether nothing has come of it yet.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Remembers how an attempt ended.
    pub fn remember(&mut self, attempt: PastAttempt) {
        if self.past.len() >= Self::PAST_MOST {
            self.past.remove(0);
        }
        self.past.push(attempt);
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_nothing(span: &Millis) -> bool {
    span.is_zero()
}

fn has_none(time: &GpuTime) -> bool {
    time.is_zero()
}

pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// A job that ended otherwise than another needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unmet {
    /// Which.
    pub job: JobId,
    /// How it ended.
    pub state: JobState,
}

/// How an attempt ended after which the job was run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAttempt {
    /// Which.
    pub attempt: Attempt,
    /// How it ended.
    pub outcome: Outcome,
    /// What stands behind that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EndCause>,
    /// How its program exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// When it started, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Why the job was run again.
    pub again: Again,
}

/// Why a job is run again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// Its user asked for retries.
    Retry,
    /// Its node failed.
    NodeFailed,
    /// Somebody put it back.
    Requeued {
        /// Who.
        by: Arc<str>,
    },
    /// What it held was taken back for another job.
    TakenBack {
        /// Why.
        why: TakenBack,
        /// For which job.
        beneficiary: JobId,
        /// In which way.
        #[serde(default = "Exit::usual", skip_serializing_if = "Exit::is_usual")]
        exit: Exit,
    },
    /// A task of its gang was not launched, because others use its devices.
    TaskRefused {
        /// Which.
        rank: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(on: &[RetryOn], exits: &[i32]) -> Retry {
        Retry {
            most: 3,
            on: on.iter().copied().collect(),
            exits: exits.iter().copied().collect(),
            backoff: Millis::from_secs(30),
        }
    }

    #[test]
    fn a_retry_covers_what_was_named() {
        let exit = |code| Some(ExitStatus::Code(code));
        let (oom, limit) = (EndCause::Oom, EndCause::TimeLimit);
        let plain = retry(&[], &[]);
        assert!(plain.covers(Outcome::Failed, None, exit(1)));
        assert!(plain.covers(Outcome::TimedOut, Some(&limit), exit(143)));
        assert!(!plain.covers(Outcome::Failed, Some(&oom), exit(137)));
        assert!(!plain.covers(Outcome::TimedOut, Some(&EndCause::Deadline), None));
        let by_exit = retry(&[], &[33]);
        assert!(by_exit.covers(Outcome::Failed, None, exit(33)));
        assert!(!by_exit.covers(Outcome::Failed, None, exit(1)));
        assert!(!by_exit.covers(Outcome::TimedOut, Some(&limit), None));
        let named = retry(&[RetryOn::Oom, RetryOn::Timeout], &[]);
        assert!(named.covers(Outcome::Failed, Some(&oom), exit(137)));
        assert!(named.covers(Outcome::TimedOut, Some(&limit), None));
        assert!(!named.covers(Outcome::Failed, None, exit(1)));
        let cancelled = EndCause::Cancelled { by: Arc::from("ana") };
        assert!(!plain.covers(Outcome::Cancelled, Some(&cancelled), exit(1)));
    }

    #[test]
    fn pauses_double_up_to_an_hour() {
        let retry = retry(&[], &[]);
        let pauses: Vec<u64> = [0, 1, 2, 6, 7, 200].map(|n| retry.pause(n).get() / 1000).to_vec();
        assert_eq!(pauses, [30, 60, 120, 1920, 3600, 3600]);
        let long = Retry { backoff: Millis::from_hours(5), ..retry };
        assert_eq!(long.pause(3), Millis::from_hours(5));
    }

    #[test]
    fn what_is_usual_is_the_default() {
        assert_eq!(*Course::USUAL, Course::default());
    }

    #[test]
    fn the_oldest_attempts_are_forgotten_first() {
        let mut course = Course::default();
        for attempt in 1..=40 {
            course.remember(PastAttempt {
                attempt: Attempt(attempt),
                outcome: Outcome::Failed,
                cause: None,
                exit: None,
                started_at: None,
                ended_at: Timestamp::ZERO,
                again: Again::Retry,
            });
        }
        assert_eq!(course.past.len(), Course::PAST_MOST);
        assert_eq!(course.past[0].attempt, Attempt(9));
    }
}
