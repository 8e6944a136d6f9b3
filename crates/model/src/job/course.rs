//! The course of a job so far, beside its phase: earlier attempts, retries, time on devices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::{Exit, TakenBack};
use crate::id::{Attempt, JobId};
use crate::job::end::{EndCause, ExitStatus, Outcome, TaskEnd};
use crate::job::hold::AdminHold;
use crate::job::state::JobState;
use crate::rare::{Usual, is_false};
use crate::unit::{GpuTime, Millis, Timestamp};

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
