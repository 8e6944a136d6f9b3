//! `gpool attach`: shows the terminal of a running job. A job without a terminal is followed like
//! `gpool logs -f`.

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::follow;
use gpool_cli::reference::Reference;
use gpool_cli::render::safe::{TerminalOutput, safe};
use gpool_cli::render::words;
use gpool_cli::resolve;
use gpool_cli::session::Session;
use gpool_client::{Client, LogQuery};
use gpool_wire::Job;

use crate::console::{self, DetachKeys, Leaving, Stayed};
use crate::outcome::exit_of_job;

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "The last output of the job is shown first. Ctrl-\\ d detaches. The job keeps \
    running then, and also if this command or the server ends. The exit code is the job's own, or \
    130 after detaching. A job without a terminal is followed like gpool logs -f. Control \
    characters of another user's job are made visible, except those that end a line or move \
    within it; --raw turns that off."
)]
pub struct AttachArgs {
    /// Job to attach to, e.g. 1842, a name or @ (your newest)
    #[arg(value_name = "JOB")]
    job: Reference,
    /// Rank of the task, for a job with several tasks
    #[arg(long, value_name = "RANK")]
    rank: Option<u32>,
    /// Do not filter control characters in the output of another user's job
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    keys: KeysFlag,
}

/// The keys that detach from a terminal.
#[derive(Debug, Clone, Default, Args)]
pub struct KeysFlag {
    /// Keys that detach from the terminal of the job, e.g. ctrl-p,ctrl-q or none
    #[arg(long, value_name = "KEYS", default_value = "ctrl-\\,d")]
    pub detach_keys: DetachKeys,
}

/// Runs the verb.
///
/// # Errors
/// There is no such job, it does not run, or the server can't be reached.
pub fn run(args: &AttachArgs, session: &Session) -> Result {
    let client = session.client()?;
    let (id, _) = resolve::one(&client, &args.job, session.me())?;
    let job = client.job(&id)?;
    if job.request.pty.is_none() && !job.private && job.run.started_at.is_some() {
        session.screen.note(&format!("note: job {id} has no terminal; this is its output"));
        let client = session.patient(client);
        let query = LogQuery { follow: true, rank: args.rank, ..LogQuery::default() };
        let mut out =
            TerminalOutput::new(std::io::stdout().lock(), is_plain(&job, args.raw, session));
        follow::copy(&client, &id, &query, &mut out)?;
        let job = Box::new(client.job(&id)?);
        return finish(&client, session, Stayed::Ended { job, has_output: true }, (&id, false));
    }
    // Checked first, so that a refusal is printed before the screen changes.
    let attach = gpool_wire::AttachJob { rank: args.rank, window: None };
    drop(client.attach(&id, &attach)?);
    let keys = &args.keys.detach_keys;
    let is_plain = is_plain(&job, args.raw, session);
    if is_plain {
        session.screen.note(&format!("note: {OF_OTHERS}"));
    }
    let stayed = stay(&client, session, (&id, args.rank), (keys, is_plain))?;
    finish(&client, session, stayed, (&id, is_plain))
}

/// The note before the output of another user's job.
pub const OF_OTHERS: &str = "the job belongs to another user, so its control characters are made \
                             visible; --raw turns that off";

/// Whether control characters are made visible: on a terminal, for jobs of other users.
pub fn is_plain(job: &Job, raw: bool, session: &Session) -> bool {
    !raw && session.screen.is_terminal() && job.user != session.me()
}

/// Shows a job's terminal after a note about the detach keys.
pub fn stay(
    client: &Client,
    session: &Session,
    task: (&str, Option<u32>),
    (keys, is_plain): (&DetachKeys, bool),
) -> Result<Stayed> {
    let how = keys.to_string();
    if !how.is_empty() {
        session.screen.note(&format!("{how} detaches; the job continues."));
    }
    console::stay(client, session, task, (keys, is_plain))
}

/// Prints how the connection ended and returns the exit code.
///
/// # Errors
/// The output of a job that had ended before it was attached to can't be read.
pub fn finish(
    client: &Client,
    session: &Session,
    stayed: Stayed,
    (id, is_plain): (&str, bool),
) -> Result {
    match stayed {
        Stayed::Ended { job, has_output } => {
            if !has_output && job.request.pty.is_some() {
                show_log(client, &job, is_plain)?;
            }
            say_end(session, &job);
            Ok(exit_of_job(&job).unwrap_or(Exit::FAILED))
        }
        Stayed::Disconnected(Leaving::Signal(signal)) => {
            let code = u8::try_from(128 + signal).unwrap_or(Exit::FAILED.0);
            Ok(Exit(code))
        }
        Stayed::Disconnected(Leaving::Detached) => {
            session.screen.note(&format!(
                "detached; job {id} continues.   gpool attach {id}   gpool cancel {id}"
            ));
            Ok(Exit::DETACHED)
        }
    }
}

fn show_log(client: &Client, job: &Job, is_plain: bool) -> Result<()> {
    let query = LogQuery::default();
    let mut out = TerminalOutput::new(std::io::stdout().lock(), is_plain);
    match follow::copy(client, &job.id, &query, &mut out) {
        // The job never started.
        Err(failure) if failure.code() == Some(gpool_wire::catalogue::NO_SUCH_LOG) => Ok(()),
        other => other,
    }
}

fn say_end(session: &Session, job: &Job) {
    let state = words::state(job.state.as_str());
    let text = match &job.run.cause_text {
        Some(why) if why.starts_with(&*state) => format!("job {} {why}", job.id),
        Some(why) => format!("job {} {state}: {why}", job.id),
        None => return,
    };
    session.screen.note(&safe(&text));
}
