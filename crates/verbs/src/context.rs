//! `gpool context`: lists the servers that this user has signed in to, and chooses one.

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::show_with_count;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_client::contexts::{Contexts, LOCAL, usual_path};
use gpool_wire::catalogue;

use crate::render::contexts::{CONTEXTS, ContextRow};

#[derive(Debug, Clone, Args)]
#[command(after_help = "--context NAME and GPOOL_CONTEXT=NAME choose a context for one command.")]
pub struct ContextArgs {
    #[command(subcommand)]
    action: ContextAction,
}

#[derive(Debug, Clone, Subcommand)]
enum ContextAction {
    /// List the servers that you signed in to
    List(ListFlags),
    /// Use a server in all commands
    Use {
        /// Name of the context, or local for the servers of this machine
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a server and its token from this machine; the token stays valid
    Remove {
        /// Name of the context
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Runs the verb.
pub fn run(args: ContextArgs, session: &Session) -> Result {
    let path = usual_path().ok_or_else(|| {
        Failure::new(catalogue::CONTEXT, "there is no home folder for the contexts")
    })?;
    let mut contexts = Contexts::read(&path)?;
    match args.action {
        ContextAction::List(flags) => {
            return show_with_count(&CONTEXTS, &flags, session, "context", || Ok(rows(&contexts)));
        }
        ContextAction::Use { name } => {
            contexts.find(&name)?;
            contexts.current = Some(name.clone()).filter(|name| name != LOCAL);
            contexts.write(&path)?;
            session.screen.note(&format!("context {} is in use", safe(&name)));
        }
        ContextAction::Remove { name } => {
            if contexts.contexts.remove(&name).is_none() {
                contexts.find(&name)?;
            }
            contexts.current = contexts.current.filter(|current| *current != name);
            contexts.write(&path)?;
            session.screen.note(&format!("context {} is removed", safe(&name)));
        }
    }
    Ok(Exit::OK)
}

fn rows(contexts: &Contexts) -> Vec<ContextRow> {
    let current = contexts.current.as_deref().unwrap_or(LOCAL);
    let row = |name: &str, server: Option<&str>| ContextRow {
        name: name.to_owned(),
        server: server.map(str::to_owned),
        current: name == current,
    };
    let others = contexts.contexts.iter().map(|(name, it)| row(name, Some(&it.server)));
    std::iter::once(row(LOCAL, None)).chain(others).collect()
}
