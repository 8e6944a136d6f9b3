//! `gpool logs`: what a job has written.

use clap::Args;
use gpool_client::{LogQuery, LogStream};
use gpool_wire::{Time, catalogue};

use crate::away;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::follow;
use crate::labelled;
use crate::reference::Reference;
use crate::render::clock;
use crate::render::safe::Plain;
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
    /// Only of one task, by its rank, where the job has several; without it each line of such a
    /// job has the rank of its task before it
    #[arg(long, value_name = "RANK")]
    rank: Option<u32>,
    /// State folder to look into while no server answers
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
}

/// Runs it. While no server answers it shows what is on disk.
///
/// # Errors
/// There is no such job or log, or the output can't be written; or nobody but the disk was there
/// to ask.
pub fn run(args: &LogsArgs, session: &Session) -> Result {
    let read = |text: &String| session.screen.clock.read(text, clock::now());
    let since: Option<Time> = args
        .since
        .as_ref()
        .map(read)
        .transpose()
        .map_err(|why| Failure::new(catalogue::INVALID, format!("--since: {why}")))?;
    let stream = if args.stderr { LogStream::Stderr } else { LogStream::Stdout };
    let query = LogQuery {
        stream,
        follow: args.follow,
        since,
        tail: args.tail,
        attempt: None,
        rank: args.rank,
    };
    match session.client().and_then(|client| Ok(client.ready().map(|()| client)?)) {
        Ok(client) => {
            let client = if args.follow { session.patient(client) } else { client };
            let (id, attempt) = resolve::one(&client, &args.job, session.me())?;
            let query = LogQuery { attempt, ..query };
            let job = client.job(&id)?;
            let is_plain = session.screen.is_terminal() && job.user != session.me();
            if args.rank.is_none() && labelled::n_tasks(&job) > 1 {
                labelled::copy(&client, &job, &query, is_plain)?;
                return Ok(Exit::OK);
            }
            let mut out = std::io::stdout().lock();
            match is_plain {
                true => follow::copy(&client, &id, &query, &mut Plain::new(out))?,
                false => follow::copy(&client, &id, &query, &mut out)?,
            }
        }
        Err(failure) if failure.code() == Some(catalogue::UNREACHABLE) => {
            let Reference::Id { job, attempt } = &args.job else {
                return Err(failure.why("without a server a job is found by its number only"));
            };
            let query = LogQuery { attempt: *attempt, ..query };
            away::logs(failure, args.state_dir.as_deref(), *job, &query, session)?;
        }
        Err(failure) => return Err(failure),
    }
    Ok(Exit::OK)
}
