//! `gpool nodes`: lists nodes, adds and removes them, and changes their labels.

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::args::values;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::listing::show_with_count;
use gpool_cli::render::json;
use gpool_cli::render::nodes::NODES;
use gpool_cli::session::Session;
use gpool_wire::LabelNodes;
use gpool_wire::join::AddNode;

#[derive(Debug, Clone, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NodesArgs {
    #[command(subcommand)]
    action: Option<NodesAction>,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Clone, Subcommand)]
enum NodesAction {
    /// List nodes
    List(ListFlags),
    /// Add a node on another machine: prints the command to run there
    Add {
        /// Name of the node
        #[arg(value_name = "NAME", value_parser = values::filled)]
        node: String,
        /// Time until the token in the command expires, up to 30d (default: 1d)
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// Remove a node that is drained or does not answer
    Remove {
        /// The node
        #[arg(value_name = "NODE", value_parser = values::filled)]
        node: String,
        /// Its machine is off for good: end the jobs on it as on a lost node
        #[arg(long)]
        off: bool,
    },
    /// Change labels of nodes; running jobs stay
    Label {
        /// Nodes, e.g. lab1,lab2 or node[1-4,7]
        #[arg(value_name = "NODES", value_parser = values::node_list)]
        nodes: String,
        /// Labels to set, e.g. rack=3 or ssd, and to remove, e.g. ssd-
        #[arg(required = true, value_name = "LABEL", value_parser = values::filled)]
        labels: Vec<String>,
    },
}

/// Runs the verb.
pub fn run(args: NodesArgs, session: &Session) -> Result {
    match args.action {
        None => list(&args.list, session),
        Some(NodesAction::List(flags)) => list(&flags, session),
        Some(NodesAction::Add { node, expires }) => {
            let made = session.client()?.add_node(&AddNode { name: node, expires })?;
            if session.global.json {
                session.screen.data(&json::one(&made))?;
                return Ok(Exit::OK);
            }
            session.screen.data(&format!("{}\n", made.command))?;
            session.screen.note(&format!(
                "run this on the new machine. The token serves once, until {}",
                session.view().clock.full(made.expires_at)
            ));
            Ok(Exit::OK)
        }
        Some(NodesAction::Remove { node, off }) => {
            let answer = session.client()?.remove_node(&node, off)?;
            if session.global.json {
                session.screen.data(&json::list(&answer.items))?;
            } else {
                session.screen.note(&format!("{node} is removed"));
            }
            Ok(Exit::OK)
        }
        Some(NodesAction::Label { nodes, labels }) => {
            let asked = LabelNodes { nodes: vec![nodes], labels };
            let answer = session.client()?.label_nodes(&asked)?;
            if session.global.json {
                session.screen.data(&json::list(&answer.items))?;
            } else {
                let (nodes, labels) = (asked.nodes.join(","), asked.labels.join(" "));
                session.screen.note(&format!("{nodes}: {labels}; running jobs stay"));
            }
            Ok(Exit::OK)
        }
    }
}

fn list(flags: &ListFlags, session: &Session) -> Result {
    let client = session.client()?;
    show_with_count(&NODES, flags, session, "node", || Ok(client.nodes()?.items))
}
