//! `gpool usage`: allocated, busy and idle GPU time over a range.

use clap::Args;
use gpool_cli::args::list::ListFlags;
use gpool_cli::failure::Result;
use gpool_cli::listing::{Between, Listing, show};
use gpool_cli::render::list::select;
use gpool_cli::session::Session;
use gpool_web::Bars;
use gpool_wire::usage::UsageParams;

use crate::render::usage::{USAGE, footer};

#[derive(Debug, Clone, Default, Args)]
#[command(
    after_help = "Allocated time is what jobs held, busy time had running kernels, idle time \
    had none. Processes that gpool did not start have the kind unmanaged; by user, they have rows \
    of their own. Waiting time is that of the requested GPUs."
)]
pub struct UsageArgs {
    #[command(flatten)]
    list: ListFlags,
    #[command(flatten)]
    range: RangeFlags,
}

/// The flags of reports about GPU time.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Usage")]
pub struct RangeFlags {
    /// One row for each of these: project, user, model, kind, node, pool, job
    #[arg(long, value_name = "WHAT", default_value = "project")]
    by: String,
    /// Only GPU time with these properties, e.g. kind=train,user=ana
    #[arg(long, value_name = "WHAT=NAME,…")]
    only: Option<String>,
    /// Start, to the hour; by default a week ago
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// End, to the hour; by default now
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// One row for each hour or day
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
}

impl RangeFlags {
    /// The parameters of the report.
    pub fn read(&self, session: &Session) -> Result<UsageParams> {
        let Between { since, until } = Between::read(&self.since, &self.until, session)?;
        let (by, only, step) = (Some(self.by.clone()), self.only.clone(), self.step.clone());
        Ok(UsageParams { by, only, since, until, step, limit: None })
    }

    /// The title of a page with the report.
    pub fn title(&self, what: &str) -> String {
        let since = self.since.as_deref().unwrap_or("7d");
        let until = self.until.as_ref().map(|until| format!(" until {until}"));
        let only = self.only.as_ref().map(|only| format!(", only {only}"));
        let [until, only] = [until, only].map(Option::unwrap_or_default);
        format!("{what} by {} since {since}{until}{only}", self.by)
    }
}

/// Runs the verb.
pub fn run(args: &UsageArgs, session: &Session) -> Result {
    let range = args.range.read(session)?;
    let client = session.client()?;
    show(&USAGE, &args.list, session, || {
        let rows = client.usage(&range)?;
        let footer = footer(&rows);
        let listing = Listing::new(select(&USAGE, rows, &args.list)?, footer);
        Ok(Listing { title: args.range.title("GPU time"), bars: Some(Bars::of_usage), ..listing })
    })
}
