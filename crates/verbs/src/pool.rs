//! `gpool pool`: lists pools, moves nodes between them, and changes their settings.

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::args::values;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::listing::show_with_count;
use gpool_cli::render::json;
use gpool_cli::session::Session;
use gpool_wire::{MoveNodes, PolicyPatch};

use crate::render::pools::POOLS;

#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PoolArgs {
    #[command(subcommand)]
    action: Option<PoolAction>,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Clone, Subcommand)]
enum PoolAction {
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
    /// Change settings of a pool; policy set pool.POOL.KEY=VALUE changes the others
    Set {
        /// Pool to change
        #[arg(required = true, value_name = "POOL", value_parser = values::filled)]
        pool: String,
        /// Create and destroy MIG instances by the demand of waiting jobs (default: yes)
        #[arg(
            long,
            value_name = "yes|no",
            required = true,
            num_args = 0..=1,
            default_missing_value = "yes",
            value_parser = ["yes", "no"]
        )]
        mig_auto: String,
    },
}

/// Runs the verb.
pub fn run(args: PoolArgs, session: &Session) -> Result {
    match args.action {
        None => list(&args.list, session),
        Some(PoolAction::List(flags)) => list(&flags, session),
        Some(PoolAction::Move { nodes, pool }) => {
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
        Some(PoolAction::Set { pool, mig_auto }) => {
            let client = session.client()?;
            let set = [(format!("pool.{pool}.mig_auto"), mig_auto.clone())].into();
            let after = client.change_policy(&PolicyPatch { set, ..PolicyPatch::default() })?;
            if session.global.json {
                session.screen.data(&json::one(&after))?;
            } else {
                session.screen.note(&format!("pool {pool}: mig_auto is {mig_auto}"));
                if client.pools()?.items.iter().all(|it| it.name != pool) {
                    session.screen.note(&format!("no node is in pool {pool} yet"));
                }
            }
            Ok(Exit::OK)
        }
    }
}

fn list(flags: &ListFlags, session: &Session) -> Result {
    let client = session.client()?;
    show_with_count(&POOLS, flags, session, "pool", || Ok(client.pools()?.items))
}
