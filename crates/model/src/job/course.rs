//! The history of a job besides its phase: earlier attempts, retries, time on devices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::{Exit, TakenBack};
use crate::id::{Attempt, JobId};
use crate::job::end::{EndCause, ExitStatus, Outcome, TaskEnd};
use crate::job::hold::AdminHold;
use crate::job::state::JobState;
use crate::launch::NodeLack;
use crate::rare::{Usual, is_false};
use crate::unit::{GpuTime, Millis, Timestamp};
use crate::xid::JobXid;

/// The history of a job, besides its present phase.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// The number of its retries that it has used.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_retries: u32,
    /// The number of times that it ran again because its node failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_node_failures: u32,
    /// The ends of its last attempts, oldest first; at most [`Course::PAST_MOST`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<PastAttempt>,
    /// It does not run again before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<Timestamp>,
    /// It does not start before this time, counted from the start of a job that it depends on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// Whether one of the dependencies in `after_one` is met.
    #[serde(skip_serializing_if = "is_false")]
    pub one_met: bool,
    /// The dependency that can never be met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Unmet>,
    /// When it is released, if it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_at: Option<Timestamp>,
    /// How much its user has extended its time limit while it ran.
    #[serde(skip_serializing_if = "is_nothing")]
    pub extended: Millis,
    /// The GPU time that it attained in past attempts.
    #[serde(skip_serializing_if = "has_none")]
    pub attained: GpuTime,
    /// What changes of its size in this attempt add to its present GPUs times its run time, in
    /// thousandths of a GPU times milliseconds.
    #[serde(skip_serializing_if = "is_even")]
    pub resized: i64,
    /// The part of the attained GPU time that no longer counts in the queue order, because the job
    /// waited long afterwards.
    #[serde(skip_serializing_if = "has_none")]
    pub forgiven: GpuTime,
    /// How long it was paused in this attempt, up to the last resume.
    #[serde(skip_serializing_if = "is_nothing")]
    pub paused: Millis,
    /// Why it can't be paused, if that was tried in this attempt: its next exit is used instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_pausable: Option<Arc<str>>,
    /// Whether its owner got the message that it did not start by its forecast.
    #[serde(skip_serializing_if = "is_false")]
    pub late_sent: bool,
    /// The time limit that its owner was warned about in this attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warned_limit: Option<Millis>,
    /// Why its devices were not released when it was last idle, if they should have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_released: Option<Arc<str>>,
    /// The Xids that its devices reported while it had them, in all attempts; at most
    /// [`Course::XIDS_MOST`] kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<JobXid>,
    /// The state of each task of a gang in this attempt, by rank. Empty for a job of one task (its
    /// phase has the state), and for a gang without allocations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskCourse>,
    /// The nodes that it does not start on, because they lack something that it needs; by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacking_nodes: Vec<NodeLack>,
    /// The node that pulls the image of its container, which it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull: Option<NodeLack>,
    /// The number of jobs that have joined it in this attempt or may still do so.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_joiners: u32,
    /// The admin that stopped it. Kept after the end of the attempt: however it ends, the job is
    /// held afterwards until such an admin starts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_hold: Option<AdminHold>,
}

/// The state of one task of a gang.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCourse {
    /// When it started, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// How it ended, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<TaskEnd>,
    /// Whether it is paused, while other tasks of its job are not yet.
    #[serde(skip_serializing_if = "is_false")]
    pub is_paused: bool,
}

impl Usual for Course {
    const USUAL: &'static Self = &Self {
        n_retries: 0,
        n_node_failures: 0,
        past: Vec::new(),
        backoff_until: None,
        begin: None,
        one_met: false,
        unmet: None,
        release_at: None,
        extended: Millis::ZERO,
        attained: GpuTime::ZERO,
        resized: 0,
        forgiven: GpuTime::ZERO,
        paused: Millis::ZERO,
        not_pausable: None,
        late_sent: false,
        warned_limit: None,
        not_released: None,
        xids: Vec::new(),
        tasks: Vec::new(),
        lacking_nodes: Vec::new(),
        image_pull: None,
        n_joiners: 0,
        admin_hold: None,
    };
}

impl Course {
    /// The most past attempts that are stored.
    pub const PAST_MOST: usize = 32;
    /// After this many node failures the job ends, because it may be the cause of them.
    pub const NODE_FAILURES_MOST: u32 = 10;
    /// The most kinds of Xids that are stored.
    pub const XIDS_MOST: usize = 32;

    /// Whether everything has its default.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a past attempt.
    pub fn remember(&mut self, attempt: PastAttempt) {
        if self.past.len() >= Self::PAST_MOST {
            self.past.remove(0);
        }
        self.past.push(attempt);
    }

    /// Counts an Xid of a device.
    pub fn count_xid(&mut self, seen: &JobXid) {
        let is_same =
            |it: &&mut JobXid| (&it.node, it.device, it.xid) == (&seen.node, seen.device, seen.xid);
        if let Some(known) = self.xids.iter_mut().find(is_same) {
            known.count = known.count.saturating_add(seen.count);
        } else if self.xids.len() < Self::XIDS_MOST {
            self.xids.push(seen.clone());
        }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_nothing(span: &Millis) -> bool {
    span.is_zero()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
pub(super) fn is_even(resized: &i64) -> bool {
    *resized == 0
}

fn has_none(time: &GpuTime) -> bool {
    time.is_zero()
}

/// A job that ended in another way than a dependency requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unmet {
    /// The job.
    pub job: JobId,
    /// Its final state.
    pub state: JobState,
}

/// The end of an attempt after which the job ran again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAttempt {
    /// The attempt.
    pub attempt: Attempt,
    /// How it ended.
    pub outcome: Outcome,
    /// The cause of the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EndCause>,
    /// The exit status of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// When it started, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Why the job ran again.
    pub again: Again,
}

/// Why a job runs again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// Its user asked for retries.
    Retry,
    /// Its node failed.
    NodeFailed,
    /// A user requeued it.
    Requeued {
        /// The user.
        by: Arc<str>,
    },
    /// It was evicted for another job.
    TakenBack {
        /// The reason.
        why: TakenBack,
        /// The job that got its devices.
        beneficiary: JobId,
        /// The exit that was used.
        #[serde(default = "Exit::usual", skip_serializing_if = "Exit::is_usual")]
        exit: Exit,
    },
    /// A task of its gang was not launched because other processes use its devices.
    TaskRefused {
        /// The rank of the task.
        rank: u32,
    },
}
