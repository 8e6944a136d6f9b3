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
    let exit = exit_of(job.state, job.run.exit_code)?;
    match job.run.cause.as_deref() {
        Some("oom") => Some(Exit::JOB_OUT_OF_MEMORY),
        Some("launch_failed" | "setup_failed") => Some(Exit::JOB_NOT_STARTED),
        _ => Some(exit),
    }
}
