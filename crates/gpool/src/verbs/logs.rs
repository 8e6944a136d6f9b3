//! `gpool logs`: prints the output of jobs.

use clap::Args;
use gpool_cli::act::Each;
use gpool_cli::args::values::{References, references};
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::labelled;
use gpool_cli::reference::Reference;
use gpool_cli::render::clock;
use gpool_cli::render::safe::safe;
use gpool_cli::resolve::{self, JobScope, ResolvedJobs};
use gpool_cli::session::Session;
use gpool_client::{Client, LogQuery, LogStream};
use gpool_wire::{Job, Time, catalogue};

use crate::away;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Standard output and standard error are printed together, in the order of \
    writing. With several jobs, elements or tasks each line begins with its \
    source: gpool logs 12 prints all elements of array 12, gpool logs 12.0-3 some of them.")]
pub struct LogsArgs {
    /// Jobs, e.g. 1842, 1842#2 (its second run), 12.0-3 (elements), a name, @ (your newest)
    #[arg(value_name = "JOB", required = true, value_parser = references)]
    jobs: Vec<References>,
    /// Keep printing until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Number of last lines to print first
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Time of the first output, e.g. 2h (ago), 15:30 or 2026-11-20
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Print only standard output
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Print only standard error
    #[arg(long)]
    stderr: bool,
    /// Rank of the task to print (default: all tasks, each line with its rank)
    #[arg(long, value_name = "RANK")]
    rank: Option<u32>,
    /// State folder to read while no server answers
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
}

/// Runs the verb. While no server answers it prints the output on disk.
pub fn run(args: &LogsArgs, session: &Session) -> Result {
    let read = |text: &String| session.screen.clock.read(text, clock::now());
    let since: Option<Time> = args
        .since
        .as_ref()
        .map(read)
        .transpose()
        .map_err(|why| Failure::new(catalogue::INVALID, format!("--since: {why}")))?;
    let stream = match (args.stdout, args.stderr) {
        (true, _) => LogStream::Stdout,
        (_, true) => LogStream::Stderr,
        _ => LogStream::Both,
    };
    let query = LogQuery {
        stream,
        follow: args.follow,
        since,
        tail: args.tail,
        attempt: None,
        rank: args.rank,
    };
    let references: Vec<&Reference> = args.jobs.iter().flat_map(|list| &list.0).collect();
    match session.client().and_then(|client| Ok(client.ready().map(|()| client)?)) {
        Ok(client) => {
            let client = if args.follow { session.patient(client) } else { client };
            show(&client, &references, &query, session)
        }
        Err(failure) if failure.is_no_answer() => {
            let [Reference::Id { job, attempt }] = references[..] else {
                return Err(failure.why("without a server, give the job by its ID"));
            };
            let query = LogQuery { attempt: *attempt, ..query };
            away::logs(failure, args.state_dir.as_deref(), *job, &query, session)?;
            Ok(Exit::OK)
        }
        Err(failure) => Err(failure),
    }
}

fn show(client: &Client, references: &[&Reference], query: &LogQuery, session: &Session) -> Result {
    let mut found = ResolvedJobs::default();
    let mut query = query.clone();
    let mut is_labelled = false;
    match references {
        [only] if !only.is_several() => {
            let (id, attempt) = resolve::one(client, only, session.me())?;
            found.ids.push(id);
            query.attempt = attempt;
        }
        _ => {
            let references = references.iter().copied();
            found = resolve::each(client, references, None, session.me(), JobScope::Ever)?;
            is_labelled = true;
        }
    }
    let mut each = Each::of(&mut found);
    let mut jobs = Vec::new();
    for id in &found.ids {
        let Some(job) = each.take(client.job(id).map_err(Failure::from))? else { continue };
        if job.array.is_none() {
            jobs.push(job);
            continue;
        }
        is_labelled = true;
        let elements = elements(client, id, &query)?;
        if elements.is_empty() {
            session.screen.note(&format!("note: no element of job {} has started", safe(id)));
        }
        jobs.extend(elements);
    }
    let mut sources = Vec::new();
    for job in &jobs {
        print_notes(job, &query, session);
        let is_plain = session.screen.is_terminal() && job.user != session.me();
        sources.extend(labelled::sources(job, &query, is_labelled, is_plain)?);
    }
    labelled::copy(client, &sources, &query, |tried| each.take(tried).map(drop))?;
    each.end("show the output of", Exit::OK)
}

/// The elements of an array with output; when following, all elements.
fn elements(client: &Client, array: &str, query: &LogQuery) -> Result<Vec<Job>> {
    let mut elements = resolve::elements(client, array, "all", 0, usize::MAX)?;
    elements.retain(|it| query.follow || it.run.started_at.is_some() || it.run.attempt > 1);
    Ok(elements)
}

/// Prints notes about what the output does not show.
fn print_notes(job: &Job, query: &LogQuery, session: &Session) {
    let id = safe(&job.id);
    if let Some(last) = labelled::run_before(job).filter(|_| query.attempt.is_none()) {
        let what = format!("note: run {} of job {id} has not started", job.run.attempt);
        let then = if query.follow { "; it follows the output of" } else { "; this is" };
        session.screen.note(&format!("{what}{then} run {last}"));
    }
    if let (LogStream::Both, Some((stream, path))) = (query.stream, own_file(job)) {
        session.screen.note(&format!("note: job {id} writes {stream} to {}", safe(path)));
    }
}

/// The file of the user that one of a job's streams goes to, if the other stream has none.
fn own_file(job: &Job) -> Option<(&'static str, &str)> {
    match (&job.request.stdout, &job.request.stderr) {
        (Some(path), None) => Some(("standard output", path)),
        (None, Some(path)) => Some(("standard error", path)),
        _ => None,
    }
}
