//! `gpool usage`: allocated, busy and idle GPU time over a range.

use clap::Args;
use gpool_cli::args::list::ListFlags;
use gpool_cli::failure::Result;
use gpool_cli::listing::{Between, Listing, show};
use gpool_cli::render::list::select;
use gpool_cli::session::Session;

use crate::render::usage::{USAGE, footer};

/// The arguments of `gpool usage`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    after_help = "Allocated time is what jobs held, busy time had running kernels, idle time \
    had none. Processes that gpool did not start have the kind unmanaged."
)]
pub struct UsageArgs {
    #[command(flatten)]
    list: ListFlags,
    /// One row for each of these: project, user, model, kind, node
    #[arg(long, value_name = "WHAT", default_value = "project", help_heading = "Usage")]
    by: String,
    /// Start, to the hour; by default a week ago
    #[arg(long, value_name = "WHEN", help_heading = "Usage")]
    since: Option<String>,
    /// End, to the hour; by default now
    #[arg(long, value_name = "WHEN", help_heading = "Usage")]
    until: Option<String>,
    /// One row for each hour or day
    #[arg(long, value_name = "STEP", help_heading = "Usage")]
    step: Option<String>,
}

/// Runs the verb.
///
/// # Errors
/// A flag's value is not valid, or the server can't be asked.
pub fn run(args: &UsageArgs, session: &Session) -> Result {
    let between = Between::read(&args.since, &args.until, session)?;
    let client = session.client()?;
    show(&USAGE, &args.list, session, || {
        let step = args.step.as_deref();
        let rows = client.usage(&args.by, between.since, between.until, step)?;
        let footer = footer(&rows);
        Ok(Listing::new(select(&USAGE, rows, &args.list)?, footer))
    })
}
