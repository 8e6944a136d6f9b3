//! `gpool pool`: lists pools and moves nodes between them.

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::args::values;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::listing::show_counted;
use gpool_cli::render::json;
use gpool_cli::session::Session;
use gpool_wire::MoveNodes;

use crate::render::pools::POOLS;

/// The arguments of `gpool pool`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PoolArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// List pools
    List(ListFlags),
    /// Move nodes into a pool, which is created if needed; running jobs stay
    Move {
        /// Nodes to move
        #[arg(required = true, value_name = "NODES", value_parser = values::filled)]
        nodes: Vec<String>,
        /// Pool to move them to
        #[arg(required = true, value_name = "POOL", value_parser = values::filled)]
        pool: String,
    },
}

/// Runs the verb.
///
/// # Errors
/// The server can't be asked or refuses.
pub fn run(args: PoolArgs, session: &Session) -> Result {
    match args.action {
        None => list(&args.list, session),
        Some(Action::List(flags)) => list(&flags, session),
        Some(Action::Move { nodes, pool }) => {
            let asked = MoveNodes { nodes, pool };
            let answer = session.client()?.move_nodes(&asked)?;
            if session.global.json {
                session.screen.data(&json::list(&answer.items))?;
            } else {
                let names = asked.nodes.join(", ");
                session.screen.note(&format!("pool {}: {names}; running jobs stay", asked.pool));
            }
            Ok(Exit::OK)
        }
    }
}

fn list(flags: &ListFlags, session: &Session) -> Result {
    let client = session.client()?;
    show_counted(&POOLS, flags, session, "pool", || Ok(client.pools()?.items))
}
