//! `gpool shell`: an interactive shell as a job. Its prompt shows the job and its remaining time.

use std::io::IsTerminal as _;

use clap::Args;
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::failure::Result;
use gpool_cli::request;
use gpool_cli::script::Script;
use gpool_cli::session::Session;
use gpool_cli::terminal::{no_terminal, window};
use gpool_wire::field::heading;

use super::attach::KeysFlag;
use super::run;

/// The job's script: it writes the startup file of the shell and then executes the shell.
const SCRIPT: &str = include_str!("shell.sh");

#[derive(Debug, Clone, Args)]
#[command(
    args_override_self = true,
    after_help = "The job waits for its GPUs like any other, and ends with the shell. Without \
    --time it has no time limit and keeps its GPUs until you exit. Ctrl-\\ d detaches (exit code \
    130); gpool attach @ returns to it."
)]
pub struct ShellArgs {
    #[command(flatten)]
    flags: JobFlags,
    /// Shell to run (default: $SHELL)
    #[arg(long, value_name = "PROGRAM", help_heading = heading::PROGRAM)]
    shell: Option<String>,
    #[command(flatten, next_help_heading = heading::STREAMS)]
    keys: KeysFlag,
}

/// Runs the verb.
///
/// # Errors
/// This is not a terminal, the job was refused, or the server can't be reached.
pub fn run(args: ShellArgs, session: &Session) -> Result {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(no_terminal("gpool shell")
            .tip("gpool run -- COMMAND")
            .tip("gpool submit SCRIPT"));
    }
    let variable = || std::env::var("SHELL").ok().filter(|shell| !shell.is_empty());
    let shell = args.shell.or_else(variable).unwrap_or_else(|| "/bin/sh".to_owned());
    let has_limit = args.flags.request.0.time.is_some();
    let script = Script { path: "shell".to_owned(), bytes: SCRIPT.as_bytes().to_vec() };
    let mut request = request::of_script(args.flags, &script, &[shell])?;
    request.job.pty = Some(window());
    let client = session.client()?;
    request.resolve(&client, session)?;
    if request.job.gpus.is_some() && !has_limit && request.job.time.is_none() {
        request.remarks.push(
            "no time limit: the shell keeps its GPUs until you exit (--time 2h sets one)"
                .to_owned(),
        );
    }
    run::on_terminal(&client, session, &request, &args.keys.detach_keys)
}
