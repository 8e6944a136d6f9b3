//! `gpool logs`: what a job has written.

use clap::Args;
use gpool_client::{LogQuery, LogStream};
use gpool_wire::{Time, catalogue};

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::follow;
use crate::reference::Reference;
use crate::render::clock;
use crate::resolve;
use crate::session::Session;

/// Show what a job has written
#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// The job: 1842, 1842#2 (its second run), a name, @ (my newest)
    #[arg(value_name = "JOB")]
    job: Reference,
    /// Go on until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Only the last so many lines, at first
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Only what was written since: 2h (ago), 15:30, 2026-11-20
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Standard error instead of standard output
    #[arg(long)]
    stderr: bool,
}

/// Runs it.
///
/// # Errors
/// There is no such job or log, or the output can't be written.
pub fn run(args: &LogsArgs, session: &Session) -> Result {
    let read = |text: &String| session.screen.clock.read(text, clock::now());
    let since: Option<Time> = args
        .since
        .as_ref()
        .map(read)
        .transpose()
        .map_err(|why| Failure::new(catalogue::INVALID, format!("--since: {why}")))?;
    let client = session.client()?;
    let (id, attempt) = resolve::one(&client, &args.job, session.me())?;
    let stream = if args.stderr { LogStream::Stderr } else { LogStream::Stdout };
    let query = LogQuery { stream, follow: args.follow, since, tail: args.tail, attempt };
    let mut away = || session.screen.note("note: the server is away; this goes on when it is back");
    follow::copy(&client, &id, &query, &mut std::io::stdout().lock(), &mut away)?;
    Ok(Exit::OK)
}
