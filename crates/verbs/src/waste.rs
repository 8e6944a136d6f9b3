//! `gpool waste`: jobs by the GPU time that they hold and do not use.

use clap::Args;
use gpool_cli::args::list::ListFlags;
use gpool_cli::failure::Result;
use gpool_cli::listing::{Between, Listing, show};
use gpool_cli::render::list::select;
use gpool_cli::session::Session;
use gpool_web::Bars;

use crate::render::waste::{WASTE, footer};

#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Idle GPU time is allocated time without running kernels. Running jobs \
    always count, from their first recorded minute on; jobs without measured utilization are \
    not shown.")]
pub struct WasteArgs {
    #[command(flatten)]
    list: ListFlags,
    /// Earliest end of ended jobs; by default a week ago
    #[arg(long, value_name = "WHEN", help_heading = "Waste")]
    since: Option<String>,
    /// Simulate which waiting jobs would start now without each of the first running jobs (admins)
    #[arg(long, help_heading = "Waste")]
    sooner: bool,
}

/// Runs the verb.
pub fn run(args: &WasteArgs, session: &Session) -> Result {
    let between = Between::read(&args.since, &None, session)?;
    let client = session.client()?;
    show(&WASTE, &args.list, session, || {
        let rows = client.waste(between.since, args.list.limit, args.sooner)?;
        let footer = footer(&rows);
        let listing = Listing::new(select(&WASTE, rows, &args.list)?, footer);
        let since = args.since.as_deref().unwrap_or("7d");
        let title = format!("Idle GPU time of jobs since {since}");
        Ok(Listing { title, bars: Some(Bars::of_waste), ..listing })
    })
}
