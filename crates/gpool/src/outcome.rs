//! The exit code of `run` and `wait` for a job that has ended.

use gpool_cli::exit::Exit;
use gpool_model::job::JobState;
use gpool_wire::Job;

/// The exit code for a job in this state; `None` if it has not ended.
#[must_use]
pub fn exit_of(state: JobState, exit_code: Option<i32>) -> Option<Exit> {
    let own = exit_code.map(|code| Exit(u8::try_from(code.rem_euclid(256)).unwrap_or(u8::MAX)));
    match state {
        JobState::Succeeded => Some(own.unwrap_or(Exit::OK)),
        // Without an exit code the program never ran.
        JobState::Failed => Some(own.unwrap_or(Exit::JOB_NOT_STARTED)),
        JobState::Cancelled => Some(own.unwrap_or(Exit::JOB_CANCELLED)),
        JobState::TimedOut => Some(Exit::JOB_TIMED_OUT),
        JobState::Lost => Some(Exit::FAILED),
        JobState::Held
        | JobState::Waiting
        | JobState::Pending
        | JobState::Starting
        | JobState::Running
        | JobState::Paused
        | JobState::Stopping => None,
    }
}

/// The exit code of a job, with the cause of its end considered; `None` if it has not ended.
#[must_use]
pub fn exit_of_job(job: &Job) -> Option<Exit> {
    let exit = exit_of(job.state, job.exit_code)?;
    match job.cause.as_deref() {
        Some("oom") => Some(Exit::JOB_OUT_OF_MEMORY),
        Some("launch_failed" | "setup_failed") => Some(Exit::JOB_NOT_STARTED),
        _ => Some(exit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_jobs_are_told_apart_by_exit_code() {
        for (state, code, exit) in [
            (JobState::Succeeded, Some(0), Some(0)),
            (JobState::Failed, Some(7), Some(7)),
            (JobState::Failed, Some(128 + 11), Some(139)),
            (JobState::Failed, Some(256 + 3), Some(3)),
            (JobState::Failed, None, Some(125)),
            (JobState::TimedOut, Some(143), Some(124)),
            (JobState::Cancelled, Some(143), Some(143)),
            (JobState::Cancelled, None, Some(143)),
            (JobState::Lost, None, Some(1)),
            (JobState::Running, None, None),
        ] {
            assert_eq!(exit_of(state, code).map(|exit| exit.0), exit, "{state} {code:?}");
        }
    }
}
