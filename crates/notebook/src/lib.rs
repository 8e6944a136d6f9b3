//! `gpool notebook`: a web server for one person, such as Jupyter, as a job. The server carries its
//! pages to the browser, by a host name of its own.
//!
//! In the job, [`host`] chooses an address, starts a second process, `watch`, and becomes the web
//! server. The watch reports when the server answers, and when its kernels are busy.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

pub mod activity;
mod address;
pub mod host;
mod open;
pub mod program;
mod submit;
mod watch;

use clap::{Args, Subcommand};
use gpool_cli::failure::Result;
use gpool_cli::reference::Reference;
use gpool_cli::session::Session;

pub use address::Address;

#[derive(Debug, Clone, Args)]
#[command(args_override_self = true, args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Without a command it starts Jupyter or code-server, the first one in PATH. \
    A command has {port} for a free port, or {socket} for a Unix socket that only you can use. \
    The URL works once, within 10 minutes, in your browser."
)]
pub struct NotebookArgs {
    #[command(subcommand)]
    action: Option<NotebookAction>,
    #[command(flatten)]
    new: submit::NotebookFlags,
}

#[derive(Debug, Clone, Subcommand)]
enum NotebookAction {
    /// Print another URL of a notebook
    Open {
        /// Job of the notebook, e.g. 1842, a name or @ (your newest)
        #[arg(value_name = "JOB")]
        job: Reference,
    },
}

/// Runs the verb.
///
/// # Errors
/// The server refuses the job, it ends before it is ready, or it is no notebook.
pub fn run(args: NotebookArgs, session: &Session) -> Result {
    match args.action {
        Some(NotebookAction::Open { job }) => open::run(&job, session),
        None => submit::run(args.new, session),
    }
}
