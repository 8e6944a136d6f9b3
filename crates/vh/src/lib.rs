//! `gpool vh`: the commands of Valohai's client. Steps of a valohai.yaml run as jobs.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

mod config_files;
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
mod options;
mod pipeline;
mod plan;

use clap::{Args, Subcommand};
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_wire::catalogue;

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
    /// Run a task: not supported
    #[command(hide = true, disable_help_flag = true)]
    Task(Refused),
    /// Run a pipeline
    Pipeline(pipeline::PipelineArgs),
}

/// The words of a command that gpool refuses.
#[derive(Debug, Clone, Args)]
struct Refused {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

/// Runs the verb.
///
/// # Errors
/// The file, a value or the server refuses.
pub fn run(args: VhArgs, session: &Session) -> Result {
    match args.action {
        VhAction::Lint(args) => lint::run(&args, session),
        VhAction::Execution(args) => executions::run(args, session),
        VhAction::Task(refused) => Err(unsupported("task", &refused.words)
            .why("a task needs a job for each set of parameters")
            .tip("gpool vh exec run STEP --adhoc --PARAMETER=VALUE   (once for each set)")),
        VhAction::Pipeline(args) => pipeline::run(args, session),
    }
}

fn unsupported(kind: &str, words: &[String]) -> Failure {
    let words: Vec<&str> = std::iter::once(kind).chain(words.iter().map(String::as_str)).collect();
    Failure::new(catalogue::INVALID, format!("gpool does not run vh {}", words.join(" ")))
}
