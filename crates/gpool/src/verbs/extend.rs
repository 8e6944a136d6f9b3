//! `gpool extend`: changes the time limits of jobs, running or not.

use clap::Args;
use gpool_model::job::JobState;
use gpool_wire::{ExtendJobs, Problem, Written};

use super::act::on_jobs;
use crate::args::jobs::Jobs;
use crate::args::values;
use crate::errors;
use crate::failure::{Failure, Result};
use crate::resolve::Scope;
use crate::session::Session;

/// What ends already has no use for a limit.
const SCOPE: Scope = Scope::In(&[
    JobState::Held,
    JobState::Waiting,
    JobState::Pending,
    JobState::Starting,
    JobState::Running,
]);

/// Change the time limits of jobs, running or not
#[derive(Debug, Clone, Args)]
#[command(after_help = "gpool extend 1842 --by +30m     half an hour longer\n\
    gpool extend 1842 --to 4h      four hours in all, from its start\n\
    gpool extend 1842 --to none    no limit\n\n\
    While a job runs, its owner may add what the policy allows (user_extend_max), and take away.")]
pub struct ExtendArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Longer by that much, or shorter: +30m, -10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    #[arg(value_parser = values::filled, conflicts_with = "to")]
    by: Option<String>,
    /// That long from its start, or none
    #[arg(long, visible_alias = "time", value_name = "TIME", value_parser = values::filled)]
    #[arg(allow_hyphen_values = true)]
    to: Option<String>,
    /// Do not ask before touching jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs it.
///
/// # Errors
/// It is no length of time, there are no such jobs, or the server refuses.
pub fn run(args: &ExtendArgs, session: &Session) -> Result {
    let written = |text: &Option<String>| text.clone().map(Written::Text);
    let change = ExtendJobs { by: written(&args.by), to: written(&args.to), jobs: Vec::new() };
    if change == ExtendJobs::default() {
        return Err(Failure::new(errors::USAGE, "it is not said by how much")
            .tip("gpool extend JOB --by +30m")
            .tip("gpool extend JOB --to 4h"));
    }
    change.check().map_err(|refusal| Failure::from(Problem::from(refusal)))?;
    on_jobs(&args.jobs, "extend", SCOPE, args.yes, session, |client, ids| {
        client.extend(&ExtendJobs { jobs: ids.to_vec(), ..change.clone() })
    })
}
