//! `gpool vh`: the commands of Valohai's client. Steps of a valohai.yaml run as jobs.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

mod config_files;
mod environments;
mod execute;
mod executions;
mod failure;
mod file;
mod folder;
pub mod host;
mod inputs;
mod isolate;
mod late;
mod lint;
mod members;
mod options;
mod pipeline;
mod plan;
mod task;

use clap::{Args, Subcommand};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

#[derive(Debug, Clone, Args)]
#[command(after_help = "valohai.yaml describes steps. gpool vh exec run runs one as a job. gpool \
    help valohai describes what gpool supports.")]
pub struct VhArgs {
    #[command(subcommand)]
    action: VhAction,
}

#[derive(Debug, Clone, Subcommand)]
enum VhAction {
    /// Check a valohai.yaml, and list how gpool treats its keys
    Lint(lint::LintArgs),
    /// Run a step, or show executions
    #[command(visible_alias = "exec")]
    Execution(executions::ExecutionArgs),
    /// Run a task
    Task(task::TaskArgs),
    /// Run a pipeline
    Pipeline(pipeline::PipelineArgs),
}

/// Runs the verb.
///
/// # Errors
/// The file, a value or the server refuses.
pub fn run(args: VhArgs, session: &Session) -> Result {
    match args.action {
        VhAction::Lint(args) => lint::run(&args, session),
        VhAction::Execution(args) => executions::run(args, session),
        VhAction::Task(args) => task::run(args, session),
        VhAction::Pipeline(args) => pipeline::run(args, session),
    }
}
