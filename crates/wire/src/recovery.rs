//! The report of the last server start: how the previous server ended, and what happened to its
//! jobs.

use gpool_model::job::JobState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Time;

/// The report of the last server start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Time at which this server started.
    pub started_at: Time,
    /// How the previous server ended.
    pub before: Before,
    /// Time of the previous server's last commit.
    pub last_seen_at: Option<Time>,
    /// Boot time of the machine, if it started after the previous server.
    pub rebooted_at: Option<Time>,
    /// Jobs that the previous server had started and that had not ended, by ID.
    pub jobs: Vec<RecoveredJob>,
    /// Number of jobs that wait again.
    pub n_waiting: u64,
    /// Number of skipped job numbers, after a restore from a backup. They are never used.
    pub n_skipped_jobs: u64,
    /// Attempts that were unknown to the server, or already over, and that it ended.
    pub unexpected: Vec<String>,
}

/// How the previous server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// There was no previous server: the store is new.
    Nothing,
    /// The server stopped on request.
    Stopped,
    /// The server was killed or crashed.
    Killed,
    /// The machine stopped: power failure, crash, or restart.
    MachineDown,
    /// The store was restored from a backup.
    Restored,
}

/// A job that was not in the queue when the previous server ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecoveredJob {
    /// ID of the job.
    pub id: String,
    /// User that owns the job.
    pub user: String,
    /// Result of the recovery.
    pub became: Became,
    /// State of the job when the server found it.
    #[schema(schema_with = crate::schema::job_state)]
    pub state: JobState,
    /// Exit code as a shell reports it. `null` before the job has ended.
    pub exit_code: Option<i32>,
    /// Cause of the end: a stable code.
    pub cause: Option<String>,
    /// Cause of the end as a sentence. Hidden from other users.
    pub cause_text: Option<String>,
}

/// What happened to a job while no server was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// The job continued, and the server took it over.
    WentOn,
    /// The job had not started. The server ordered it again, or it is pending again.
    Again,
    /// The job ended, and the outcome is known.
    Ended,
    /// The job ended, and the outcome is unknown.
    Lost,
}

impl Recovery {
    /// Returns the jobs with this result.
    pub fn that(&self, became: Became) -> impl Iterator<Item = &RecoveredJob> {
        self.jobs.iter().filter(move |job| job.became == became)
    }

    /// Whether users should see the report: the server or a job ended unexpectedly.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        let calm = matches!(self.before, Before::Nothing | Before::Stopped);
        let is_lost = |job: &RecoveredJob| job.became == Became::Lost;
        !calm || self.jobs.iter().any(is_lost) || !self.unexpected.is_empty()
    }
}
