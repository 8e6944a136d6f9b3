//! What the last start of a server found: how the one before ended, and what became of the jobs
//! that it had started.

use gpool_model::job::JobState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// What the last start of the server found and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// When this server started.
    pub started_at: Time,
    /// How the server before it ended.
    pub before: Before,
    /// When the server before it last wrote something down.
    pub last_seen_at: Option<Time>,
    /// When the machine was started, if that was after the server before.
    pub rebooted_at: Option<Time>,
    /// Jobs that had been taken off the queue and had not ended, by id.
    pub jobs: Vec<RecoveredJob>,
    /// Jobs that waited, and do again.
    pub n_waiting: u64,
    /// Job numbers that are never given out, because the store was restored from a backup.
    pub n_skipped_jobs: u64,
    /// Runs of which the server knew nothing, or that were over for it, and that were ended.
    pub unexpected: Vec<String>,
}

/// How the server before ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// There was none: the store is new.
    Nothing,
    /// It was told to stop, and did.
    Stopped,
    /// It ended without stopping: it was killed, or failed.
    Killed,
    /// It ended with its machine: a power cut, a crash, a restart.
    MachineDown,
    /// The store was restored from a backup since.
    Restored,
}

/// A job that was not on the queue when the server before ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecoveredJob {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub user: String,
    /// What became of it.
    pub became: Became,
    /// The state that it was found in.
    #[schema(schema_with = schema::job_state)]
    pub state: JobState,
    /// Its exit code as a shell gives it, once ended.
    pub exit_code: Option<i32>,
    /// What stands behind its end, as a word.
    pub cause: Option<String>,
    /// The same in a sentence; hidden from others.
    pub cause_text: Option<String>,
}

/// What became of a job while no server was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// It went on, and was taken over.
    WentOn,
    /// It had been ordered and not started; it was ordered again, or is back on the queue.
    Again,
    /// It ended by itself, and how is known.
    Ended,
    /// It ended, and nobody knows how.
    Lost,
}

impl Recovery {
    /// Jobs that became that.
    pub fn that(&self, became: Became) -> impl Iterator<Item = &RecoveredJob> {
        self.jobs.iter().filter(move |job| job.became == became)
    }

    /// Whether somebody would want to be told: something ended that was not told to, or is other
    /// than it was.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        let calm = matches!(self.before, Before::Nothing | Before::Stopped);
        let is_lost = |job: &RecoveredJob| job.became == Became::Lost;
        !calm || self.jobs.iter().any(is_lost) || !self.unexpected.is_empty()
    }
}
