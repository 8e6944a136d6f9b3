//! Derives the end of a job from the end of its task.

use gpool_model::agent::TaskEnd;
use gpool_model::job::{EndCause, ExitStatus};
use gpool_model::{Outcome, Phase};

/// Returns the outcome of a job and its cause.
pub(crate) fn judge(end: &TaskEnd, phase: &Phase) -> (Outcome, Option<EndCause>) {
    if let Some(cause) = &end.cause {
        let outcome = match cause {
            EndCause::TimeLimit | EndCause::Deadline => Some(Outcome::TimedOut),
            EndCause::Rebooted
            | EndCause::NodeLost
            | EndCause::ShepherdLost
            | EndCause::GpuMemoryLost { .. }
            | EndCause::ProcessesMayBeLeft
            | EndCause::ShepherdEnded { .. }
            | EndCause::Vanished => Some(Outcome::Lost),
            EndCause::LaunchFailed { .. }
            | EndCause::Oom
            | EndCause::LoanCalledBack
            | EndCause::OutputCut { .. }
            | EndCause::NodeLacks(_) => Some(Outcome::Failed),
            EndCause::Cancelled { .. }
            | EndCause::DependencyFailed { .. }
            | EndCause::TooManyFailed { .. }
            | EndCause::TakenBack { .. }
            | EndCause::TaskFailed { .. }
            | EndCause::TaskRefused { .. }
            | EndCause::GangEnded { .. } => None,
        };
        if let Some(outcome) = outcome {
            return (outcome, Some(cause.clone()));
        }
    }
    if let Phase::Stopping { cause, .. } = phase
        && end.stopped
    {
        return (Outcome::Cancelled, Some(cause.end_cause()));
    }
    match end.exit {
        Some(ExitStatus::Code(0)) => (Outcome::Succeeded, None),
        Some(_) => (Outcome::Failed, None),
        None if end.started_at.is_none() => {
            let why = "its shepherd was told to end before it started the program".to_owned();
            (Outcome::Failed, Some(EndCause::LaunchFailed { why }))
        }
        None => (Outcome::Lost, Some(EndCause::Vanished)),
    }
}
