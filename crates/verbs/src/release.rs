//! `gpool release`: releases held jobs.

use clap::Args;
use gpool_cli::act::on_jobs;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::request::moment;
use gpool_cli::session::Session;
use gpool_model::JobVerb;

#[derive(Debug, Clone, Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Time of the release (default: now), e.g. 18:00, tomorrow or now+2h
    #[arg(long, value_name = "MOMENT")]
    at: Option<String>,
    /// Do not ask before releasing jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs the verb.
pub fn run(args: &ReleaseArgs, session: &Session) -> Result {
    let clock = &session.screen.clock;
    let at = args.at.as_deref().map(|text| moment(clock, "--at", text)).transpose()?;
    if let Some(at) = at {
        session.screen.note(&format!("note: they are released at {}", clock.full(at)));
    }
    on_jobs(&args.jobs, JobVerb::Release { at: at.map(|at| at.0) }, args.yes, session)
}
