//! `gpool extend`: changes the time limits of waiting or running jobs.

use clap::Args;
use gpool_cli::act::on_jobs_saying;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::args::values;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::reference::Reference;
use gpool_cli::session::Session;
use gpool_model::JobVerb;
use gpool_wire::{ExtendJobs, JobChanged, Problem, Quantity};

#[derive(Debug, Clone, Args)]
#[command(after_help = "A time after the jobs means --by: gpool extend 1842 +30m. The owner of a \
    running job may shorten it, or extend it by up to the setting user_extend_max of the policy.")]
pub struct ExtendArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Time to add or subtract, e.g. +30m or -10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    #[arg(value_parser = values::filled, conflicts_with = "to")]
    by: Option<String>,
    /// Time limit from the start of the job, e.g. 4h, or none
    #[arg(long, visible_alias = "time", value_name = "TIME", value_parser = values::filled)]
    #[arg(allow_hyphen_values = true)]
    to: Option<String>,
    /// Do not ask before changing jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs the verb.
pub fn run(args: &ExtendArgs, session: &Session) -> Result {
    let (jobs, last) = split(&args.jobs);
    let by = match (last, args.by.as_ref().or(args.to.as_ref())) {
        (Some(by), Some(other)) => {
            let what = format!("the time is given twice: {by} and {other}");
            return Err(Failure::new(errors::USAGE, what).tip(format!("gpool extend JOB {by}")));
        }
        (by, _) => by.or(args.by.clone()),
    };
    let written = |text: Option<String>| text.map(Quantity::Text);
    let change = ExtendJobs { by: written(by), to: written(args.to.clone()), jobs: Vec::new() };
    if change == ExtendJobs::default() || jobs.jobs.is_empty() {
        let what = if jobs.jobs.is_empty() { "which job?" } else { "by how much?" };
        return Err(Failure::new(errors::USAGE, what)
            .tip("gpool extend JOB +30m")
            .tip("gpool extend JOB --to 4h"));
    }
    let checked = change.check().map_err(|refusal| Failure::from(Problem::from(refusal)))?;
    let how = match (&change.by, &change.to) {
        (Some(Quantity::Text(by)), _) if by.starts_with(['+', '-']) => by.clone(),
        (Some(Quantity::Text(by)), _) => format!("+{by}"),
        (_, Some(Quantity::Text(to))) => to.clone(),
        _ => "changed".to_owned(),
    };
    let says = |_: &JobChanged| format!("time limit {how}");
    on_jobs_saying(&jobs, JobVerb::Extend { change: checked }, &says, args.yes, session)
}

/// Splits the last word off if it is a time: `1842 +30m`.
fn split(jobs: &Jobs) -> (Jobs, Option<String>) {
    let mut jobs = jobs.clone();
    let last = match jobs.jobs.last().map(|list| &list.0[..]) {
        // Neither ids nor sets of jobs start with `+`; a job with such a name can be given by id.
        Some([Reference::Name(word)]) if word.starts_with('+') => Some(word.clone()),
        _ => None,
    };
    if last.is_some() {
        jobs.jobs.pop();
    }
    (jobs, last)
}
