//! `gpool import gflow`: imports the queue of a running gflow. At any time each job can start in
//! exactly one of the two queues, or is held during its move; a repeated import continues an
//! earlier one that stopped.

mod config;
mod job;
mod queue;
mod take;

use std::path::PathBuf;

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_cli::working::during;
use serde_json::json;

use config::Config;
use queue::GflowQueue;

/// Import the queue of a running gflow
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Your waiting and held jobs are submitted to gpool with the same name, GPUs, \
    limits, priority and dependencies, and cancelled in gflow once gpool has stored them. Running \
    jobs of gflow continue; their GPUs are unmanaged until they end. A repeated import submits no \
    job twice. gpool help gflow says more."
)]
pub struct GflowArgs {
    /// Show the actions without doing them
    #[arg(long)]
    dry_run: bool,
    /// Settings of gflow (default: ~/.config/gflow/gflow.toml)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of its daemon (default: from its settings)
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// New file for the settings of gpool that correspond to gflow's
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Runs the verb.
///
/// # Errors
/// gflow's settings can't be read, or gflow or gpool does not answer; then no job is lost.
pub fn run(args: &GflowArgs, session: &Session) -> Result {
    session.refuse_remote("import gflow")?;
    let config = Config::read(args.config.as_deref())?;
    for line in config.report() {
        session.screen.note(&line);
    }
    if let Some(path) = &args.write {
        write_settings(path, &config.settings())?;
        session.screen.note(&format!("{} is written", path.display()));
    }
    let queue = GflowQueue::at(args.url.as_deref().unwrap_or(&config.url))?;
    let take = || take::take(&queue, args.dry_run, session);
    let imports = during(&session.screen, "importing jobs", take)?;
    if session.global.json {
        let items: Vec<_> = imports
            .iter()
            .map(|one| json!({"gflow": one.theirs, "id": one.ours, "what": one.what}))
            .collect();
        session.screen.data(&json::list(&items))?;
        return Ok(Exit::OK);
    }
    let line = |one: &take::JobImport| {
        let ours = one.ours.as_ref().map(|id| format!(" is job {id}")).unwrap_or_default();
        format!("gflow job {}{ours}: {}\n", one.theirs, safe(&one.what))
    };
    session.screen.data(&imports.iter().map(line).collect::<String>())?;
    if imports.is_empty() {
        session.screen.note("there is nothing to import");
    }
    Ok(Exit::OK)
}

fn write_settings(path: &PathBuf, text: &str) -> Result<()> {
    use std::io::Write as _;
    // An existing file is never overwritten.
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        Failure::new(errors::NOT_WRITTEN, format!("{}: {error}", path.display()))
            .tip("choose a file that does not exist")
    })
}
