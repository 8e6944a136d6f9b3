//! `gpool cost`: the cost of GPU time and energy over a range.

use clap::Args;
use gpool_cli::args::list::ListFlags;
use gpool_cli::failure::Result;
use gpool_cli::listing::{Listing, show};
use gpool_cli::render::list::select;
use gpool_cli::session::Session;
use gpool_web::Bars;

use super::usage::RangeFlags;
use crate::render::cost::{COST, footer};

#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Each hour has the prices that applied in it. Admins set prices with \
    gpool policy set prices=currency=EUR,gpu=1,model.h100=2.5,energy=0.25. The cost of waiting is \
    that of the requested GPUs, and is not in the cost.")]
pub struct CostArgs {
    #[command(flatten)]
    list: ListFlags,
    #[command(flatten)]
    range: RangeFlags,
}

/// Runs the verb.
pub fn run(args: &CostArgs, session: &Session) -> Result {
    let range = args.range.read(session)?;
    let client = session.client()?;
    show(&COST, &args.list, session, || {
        let rows = client.cost(&range)?;
        let footer = footer(&rows);
        let listing = Listing::new(select(&COST, rows, &args.list)?, footer);
        Ok(Listing { title: args.range.title("Cost"), bars: Some(Bars::of_cost), ..listing })
    })
}
