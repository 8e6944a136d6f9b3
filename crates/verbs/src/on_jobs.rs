//! Verbs on jobs that have no flags of their own: `gpool cancel`, `hold`, `pause`, `resume`.

use clap::Args;
use gpool_cli::act::on_jobs_saying;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::render::words;
use gpool_cli::session::Session;
use gpool_model::JobVerb;
use gpool_model::job::JobState;
use gpool_wire::JobChanged;

/// The jobs that a verb is for.
#[derive(Debug, Clone, Args)]
pub struct OnJobsArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before touching jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs a verb.
pub fn run(verb: JobVerb, args: &OnJobsArgs, session: &Session) -> Result {
    on_jobs_saying(&args.jobs, verb, &|job| says(verb, job), args.yes, session)
}

fn says(verb: JobVerb, job: &JobChanged) -> String {
    match (verb, job.state) {
        // An array runs until the last of its elements has stopped.
        (JobVerb::Cancel, state) if !state.is_end() => words::state(JobState::Stopping.as_str()),
        // A job stays paused until its GPUs are free.
        (JobVerb::Resume, JobState::Paused) => {
            format!("continues when its GPUs are free (gpool why {})", job.id)
        }
        (_, state) => words::state(state.as_str()),
    }
}
