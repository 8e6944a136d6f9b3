//! `gpool nodes`: machines as a list.

use clap::Args;

use super::list::{Listing, show};
use crate::args::list::ListFlags;
use crate::failure::Result;
use crate::render::list::select;
use crate::render::nodes::NODES;
use crate::render::words::count;
use crate::session::Session;

/// List nodes
#[derive(Debug, Clone, Default, Args)]
pub struct NodesArgs {
    #[command(flatten)]
    list: ListFlags,
}

/// Runs it.
///
/// # Errors
/// The server can't be asked.
pub fn run(args: &NodesArgs, session: &Session) -> Result {
    let client = session.client()?;
    show(&NODES, &args.list, session, || {
        let rows = select(&NODES, client.nodes()?.items, &args.list)?;
        let footer = count(u64::try_from(rows.len()).unwrap_or(u64::MAX), "node");
        Ok(Listing { rows, footer })
    })
}
