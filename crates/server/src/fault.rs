//! Failures of the server itself: the refusals for callers, and the look at the store's files and
//! their free space while nothing is committed.

use std::time::{Duration, Instant};

use gpool_model::Refusal;
use gpool_store::{CommitError, Room, StoreFiles};

/// Watches the store's files and their free space.
pub struct StoreWatch {
    presence: StoreFiles,
    room: Room,
    /// When the files were last looked at.
    looked_at: Option<Instant>,
}

impl StoreWatch {
    /// Between two looks at the files. A commit looks at them by itself.
    const PAUSE: Duration = Duration::from_millis(20);

    pub fn new(presence: StoreFiles, room: Room) -> Self {
        Self { presence, room, looked_at: None }
    }

    /// Checks that the store has room for ordinary changes.
    pub fn room(&self) -> Result<(), CommitError> {
        self.room.check()
    }

    /// Notes in `fault` that the files are gone, or that they are back.
    pub fn look(&mut self, fault: &mut Option<CommitError>) {
        if self.looked_at.is_some_and(|at| at.elapsed() < Self::PAUSE) {
            return;
        }
        self.looked_at = Some(Instant::now());
        match self.presence.check() {
            Ok(()) => drop(fault.take_if(|fault| matches!(fault, CommitError::Replaced(_)))),
            Err(error) if fault.is_none() => {
                tracing::error!(%error, "the store refuses writes");
                *fault = Some(error);
            }
            Err(_) => {}
        }
    }
}

/// Returns the refusal for callers whose commit failed.
pub fn refusal_of(error: &CommitError) -> Refusal {
    match error {
        CommitError::StorageFull | CommitError::ReadOnly | CommitError::Io(_) => {
            Refusal::StorageFull { why: error.to_string() }
        }
        CommitError::Replaced(_) => Refusal::StateGone { why: error.to_string() },
        CommitError::Corrupt(_)
        | CommitError::Fenced { .. }
        | CommitError::OutOfOrder(_)
        | CommitError::Closed => internal(error),
    }
}

/// Returns the refusal for a failure that is no caller's.
pub fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::Internal { why: error.to_string() }
}

/// Returns a refusal as the error of a command.
pub fn refused(refusal: &Refusal) -> anyhow::Error {
    let problem = gpool_wire::Problem::from(refusal);
    let what = format!("{} ({})", problem.detail, problem.code);
    match problem.why.is_empty() {
        true => anyhow::Error::msg(what),
        false => anyhow::Error::msg(problem.why.join("; ")).context(what),
    }
}
