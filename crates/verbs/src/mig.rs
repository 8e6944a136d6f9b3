//! `gpool mig`: lists, creates and destroys MIG instances, and shows the plan to do so by demand.

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::args::values;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::listing::show_with_count;
use gpool_cli::session::Session;
use gpool_wire::{CreateInstance, MigAnswer, MigRequest};

use crate::render::mig::{MIG, PLAN};

#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct MigArgs {
    #[command(subcommand)]
    action: Option<MigAction>,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Clone, Subcommand)]
enum MigAction {
    /// List the profiles of GPUs with MIG mode, their free capacity and instances
    List {
        /// Node to list; default: all nodes
        #[arg(value_name = "NODE", value_parser = values::filled)]
        node: Option<String>,
        #[command(flatten)]
        list: ListFlags,
    },
    /// Show the changes that waiting jobs need, which the server makes in pools with --mig-auto
    Plan {
        /// Only this pool, as if it had --mig-auto; default: the pools that have it
        #[arg(long, value_name = "POOL", value_parser = values::filled)]
        pool: Option<String>,
        #[command(flatten)]
        list: ListFlags,
    },
    /// Create an instance; jobs on other instances of the GPU keep running
    Create {
        /// GPU with MIG mode on, e.g. 0 or lab1:0
        #[arg(required = true, value_name = "GPU", value_parser = values::filled)]
        gpu: String,
        /// Profile, e.g. 1g.10gb
        #[arg(required = true, value_name = "PROFILE", value_parser = values::filled)]
        profile: String,
    },
    /// Destroy an instance that no job and no process uses
    Destroy {
        /// Instance, e.g. 1000 or lab1:1000
        #[arg(required = true, value_name = "INSTANCE", value_parser = values::filled)]
        instance: String,
    },
}

/// Runs the verb.
pub fn run(args: MigArgs, session: &Session) -> Result {
    match args.action {
        None => list(None, &args.list, session),
        Some(MigAction::List { node, list: flags }) => list(node, &flags, session),
        Some(MigAction::Plan { pool, list: flags }) => {
            let client = session.client()?;
            let plan = || Ok(client.mig_plan(pool.as_deref())?.items);
            show_with_count(&PLAN, &flags, session, "change", plan)
        }
        Some(MigAction::Create { gpu, profile }) => {
            let create = Some(CreateInstance { gpu: gpu.clone(), profile: profile.clone() });
            let answer = session.client()?.mig(&MigRequest { create, ..MigRequest::default() })?;
            let created = answer.created.as_ref().and_then(|it| it.index);
            let index = created.map_or_else(|| "?".to_owned(), |index| index.to_string());
            done(&answer, &format!("GPU {gpu}: {profile} created as {index}"), session)
        }
        Some(MigAction::Destroy { instance }) => {
            let destroy = Some(instance.clone());
            let answer = session.client()?.mig(&MigRequest { destroy, ..MigRequest::default() })?;
            done(&answer, &format!("instance {instance} destroyed"), session)
        }
    }
}

fn done(answer: &MigAnswer, text: &str, session: &Session) -> Result {
    match session.global.json {
        true => session.screen.data(&gpool_cli::render::json::list(&answer.profiles))?,
        false => session.screen.note(text),
    }
    Ok(Exit::OK)
}

fn list(node: Option<String>, flags: &ListFlags, session: &Session) -> Result {
    let client = session.client()?;
    let asked = MigRequest { node, ..MigRequest::default() };
    show_with_count(&MIG, flags, session, "profile", || Ok(client.mig(&asked)?.profiles))
}
