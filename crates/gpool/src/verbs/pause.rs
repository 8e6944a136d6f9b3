//! `gpool pause` and `gpool resume`: stop the processes of jobs, and continue them.

use clap::Args;
use gpool_cli::act::{on_jobs, on_jobs_saying};
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::render::words;
use gpool_cli::resolve::Scope;
use gpool_cli::session::Session;
use gpool_model::job::JobState;
use gpool_wire::JobChanged;

/// Only running jobs can be paused; a job that the scheduler paused stays paused.
const RUNS: Scope = Scope::In(&[JobState::Running, JobState::Paused]);
/// Only paused jobs can be resumed.
const PAUSED: Scope = Scope::In(&[JobState::Paused]);

/// Pause running jobs and free their GPUs for others
#[derive(Debug, Clone, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before pausing jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Resume paused jobs on the same GPUs when these are free
#[derive(Debug, Clone, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before resuming jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs `pause`.
///
/// # Errors
/// There are no such jobs, or the server refuses; the others are paused.
pub fn pause(args: &PauseArgs, session: &Session) -> Result {
    on_jobs(&args.jobs, "pause", RUNS, args.yes, session, |client, ids| client.pause(ids))
}

/// Runs `resume`.
///
/// # Errors
/// There are no such jobs, or the server refuses; the others go on.
pub fn resume(args: &ResumeArgs, session: &Session) -> Result {
    let verb = ("resume", &resumed as &dyn Fn(&JobChanged) -> String);
    on_jobs_saying(&args.jobs, verb, PAUSED, args.yes, session, |client, ids| client.resume(ids))
}

/// The new state of a resumed job. It stays paused until its GPUs are free.
fn resumed(job: &JobChanged) -> String {
    match job.state {
        JobState::Paused => format!("goes on when its GPUs are free (gpool why {})", job.id),
        state => words::state(state.as_str()),
    }
}
