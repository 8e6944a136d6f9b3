//! `gpool vh execution`: runs steps, and shows and stops their jobs.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::show_with_count;
use gpool_cli::reference::Reference;
use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::safe::safe;
use gpool_cli::render::table::Cell;
use gpool_cli::resolve;
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_wire::{Job, Problem, catalogue};

use crate::failure::invalid;
use crate::options::{self, RunFlags};
use crate::{execute, folder, members};

#[derive(Debug, Clone, Args)]
pub struct ExecutionArgs {
    #[command(subcommand)]
    action: ExecutionAction,
}

#[derive(Debug, Clone, Subcommand)]
enum ExecutionAction {
    /// Run a step as a job and print its ID
    Run(RunArgs),
    /// List your executions
    List(ListFlags),
    /// Show request, state, times and GPUs of executions
    Info(Words),
    /// Print the output of executions
    Logs(Words),
    /// List the files in the outputs of an execution
    Outputs(OutputsArgs),
    /// Stop executions
    Stop(Words),
    /// Print the output of an execution until it ends
    Watch(Words),
}

#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
struct RunArgs {
    #[command(flatten)]
    flags: RunFlags,
    /// Name of the step; then flags, variables, parameters and inputs, e.g. --adhoc VH_GPUS=2
    /// --epochs=3 --images=/data/images
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "STEP")]
    words: Vec<String>,
}

#[derive(Debug, Clone, Args)]
struct Words {
    /// Executions, by their IDs or names, and flags of the command of gpool
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "EXECUTION")]
    words: Vec<String>,
}

#[derive(Debug, Clone, Args)]
struct OutputsArgs {
    /// Execution, by its ID or name
    #[arg(value_name = "EXECUTION")]
    execution: String,
    /// Copy the files into this folder
    #[arg(short, long, value_name = "FOLDER")]
    download: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The file, a value or the server refuses.
pub fn run(args: ExecutionArgs, session: &Session) -> Result {
    let verb = |start: &[&str], words: Vec<String>| {
        let start = start.iter().map(|word| (*word).to_owned());
        session.verb(&start.chain(words).collect::<Vec<_>>())
    };
    match args.action {
        ExecutionAction::Run(RunArgs { flags, words }) => {
            let line = options::read(flags, &words[1..])?;
            execute::run(&words[0], &line, session)
        }
        ExecutionAction::List(flags) => list(&flags, session),
        ExecutionAction::Info(words) => verb(&["show"], words.words),
        ExecutionAction::Logs(words) => verb(&["logs"], words.words),
        ExecutionAction::Stop(words) => verb(&["cancel"], words.words),
        ExecutionAction::Watch(words) => verb(&["logs", "--follow"], words.words),
        ExecutionAction::Outputs(args) => outputs(&args, session),
    }
}

const EXECUTIONS: Noun<Job> = Noun {
    columns: COLUMNS,
    table: &["id", "step", "state", "gpus", "title", "submitted"],
    wide: &["id", "step", "state", "gpus", "title", "submitted", "folder"],
    name: |job| job.id.clone(),
    keys: gpool_wire::keys::keys::<Job>,
};

const COLUMNS: &[Column<Job>] = &[
    Column { name: "id", head: "ID", cell: |job, _| Cell::new(&job.id) },
    Column { name: "step", head: "STEP", cell: |job, _| Cell::new(&job.name) },
    Column { name: "state", head: "STATE", cell: |job, _| Cell::new(job.state.as_str()) },
    Column { name: "gpus", head: "GPUS", cell: |job, _| Cell::new(job.request.gpus_text()) },
    Column {
        name: "title",
        head: "TITLE",
        cell: |job, _| Cell::new(job.request.note.as_deref().unwrap_or_default()),
    },
    Column {
        name: "submitted",
        head: "SUBMITTED",
        cell: |job, view| Cell::new(&view.clock.full(job.submitted_at)),
    },
    Column {
        name: "folder",
        head: "FOLDER",
        cell: |job, _| {
            let folder = folder::of(job.request.directory.as_deref());
            Cell::new(&folder.map(|it| it.display().to_string()).unwrap_or_default())
        },
    },
];

fn list(flags: &ListFlags, session: &Session) -> Result {
    let client = session.client()?;
    let me = session.me().to_owned();
    show_with_count(&EXECUTIONS, flags, session, "execution", || {
        let (user, state) = (Some(me.clone()), Some("all".to_owned()));
        let query = JobsQuery { user, state, ..JobsQuery::default() };
        let mut jobs = resolve::every_job(&client, &query)?;
        jobs.retain(|job| folder::of(job.request.directory.as_deref()).is_some());
        Ok(jobs)
    })
}

/// The job of an execution and its folder.
fn folder_of(client: &Client, text: &str, session: &Session) -> Result<(String, PathBuf)> {
    let reference = text.parse::<Reference>().map_err(|error| invalid(error.to_string()))?;
    let (id, _) = resolve::one(client, &reference, session.me())?;
    let job = client.job(&id)?;
    let folder = folder::of(job.request.directory.as_deref()).ok_or_else(|| {
        Failure::from(Problem::new(catalogue::INVALID, format!("job {id} is no execution")))
            .tip("gpool vh exec list")
    })?;
    Ok((id, folder))
}

fn outputs(args: &OutputsArgs, session: &Session) -> Result {
    let client = session.client()?;
    let (id, of_job) = folder_of(&client, &args.execution, session)?;
    let folders = members::outputs(&of_job, &id);
    let mut files: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (rank, folder) in folders.iter().enumerate() {
        let mut own = Vec::new();
        folder::walk(folder, Path::new(""), &mut own)
            .map_err(|error| invalid(format!("can't read {}: {error}", folder.display())))?;
        own.sort();
        // Copies of several executions go to a folder each.
        let below =
            if folders.len() > 1 { PathBuf::from(rank.to_string()) } else { PathBuf::new() };
        files.extend(own.into_iter().map(|file| (folder.join(&file), below.join(file))));
    }
    let mut text = String::new();
    for (source, file) in files {
        let target = args.download.as_ref().map(|folder| folder.join(&file));
        if let Some(target) = &target {
            let parent = target.parent().unwrap_or(target);
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::copy(&source, target).map(drop))
                .map_err(|error| folder::not_written(target, &error))?;
        }
        let shown = target.unwrap_or(source).display().to_string();
        text.push_str(&format!("{}\n", safe(&shown)));
    }
    session.screen.data(&text)?;
    Ok(Exit::OK)
}
