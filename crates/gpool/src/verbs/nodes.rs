//! `gpool nodes`: lists nodes and changes their labels.

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

/// The arguments of `gpool nodes`.
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
///
/// # Errors
/// The server can't be asked or refuses.
pub fn run(args: NodesArgs, session: &Session) -> Result {
    match args.action {
        None => list(&args.list, session),
        Some(NodesAction::List(flags)) => list(&flags, session),
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
