//! `gpool import FILE`: jobs of dstack, SkyPilot, Run:ai, KAI and docker-compose as jobs of gpool.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::{Args, Subcommand};
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::hand_in::{hand_in, note_terms, say};
use gpool_cli::render::json;
use gpool_cli::request::{self, Request};
use gpool_cli::session::Session;
use gpool_compat::import::{self as gflow, GflowArgs};
use gpool_import::{Import, ImportedJob, Surroundings};
use gpool_wire::{Problem, catalogue};
use serde_json::{Value, json};

/// The largest file in bytes; the parser refuses smaller ones already.
const BYTES_MAX: u64 = 2 << 20;

#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "The file is a task of dstack or SkyPilot, pods of Run:ai or KAI, or a \
    docker-compose file. gpool prints the commands that submit its jobs, and the keys that it \
    does not take. Then it submits the jobs and prints their IDs.")]
pub struct ImportArgs {
    #[command(subcommand)]
    from: Option<From>,
    /// File with jobs; - is standard input
    #[arg(value_name = "FILE", required = true)]
    file: Option<String>,
    /// Print the commands without submitting the jobs
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Subcommand)]
enum From {
    Gflow(GflowArgs),
}

/// Runs the verb.
///
/// # Errors
/// The file can't be read, its jobs can't run on gpool, or the server refuses one.
pub fn run(args: &ImportArgs, session: &Session) -> Result {
    if let Some(From::Gflow(args)) = &args.from {
        return gflow::run(args, session);
    }
    let file = args.file.as_deref().unwrap_or("-");
    let import = read(file)?;
    // All jobs are checked before the first one is submitted.
    let requests: Vec<Request> =
        import.jobs.iter().map(|job| request(job, file)).collect::<Result<_>>()?;
    let script = import.shell_script(file);
    if args.dry_run {
        match session.global.json {
            true => session.screen.data(&json::one(document(&import, &[])))?,
            false => session.screen.data(&script)?,
        }
        return Ok(Exit::OK);
    }
    session.screen.note(script.trim_end());
    let ids = submit(&import, requests, session)?;
    match session.global.json {
        true => session.screen.data(&json::one(document(&import, &ids)))?,
        false => {
            session.screen.data(&ids.iter().map(|id| format!("{id}\n")).collect::<String>())?
        }
    }
    Ok(Exit::OK)
}

/// Reads a file.
fn read(file: &str) -> Result<Import> {
    let missing =
        |why: String| Failure::new(catalogue::SCRIPT_MISSING, format!("can't read {file}: {why}"));
    let source: Box<dyn Read> = match file {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(File::open(path).map_err(|error| missing(error.to_string()))?),
    };
    let mut bytes = Vec::new();
    let read = source.take(BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| missing(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| missing("it is not UTF-8".to_owned()))?;
    let path = std::path::absolute(file).map_err(|error| missing(error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let own = env_file_variables(folder);
    let variable = |name: &str| std::env::var(name).ok().or_else(|| own.get(name).cloned());
    let folder = folder.display().to_string();
    let surroundings = Surroundings { folder: &folder, variable: &variable };
    Import::read(&text, &surroundings).map_err(|error| {
        let what = format!("{file}, line {}: {}", error.line, error.what);
        let failure = Failure::new(catalogue::INVALID, what);
        match error.advice {
            Some(advice) => failure.tip(advice),
            None => failure,
        }
    })
}

/// The variables of the file `.env` of a folder, which docker-compose reads.
fn env_file_variables(folder: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(folder.join(".env")).unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let unquoted = |value: &str| {
        let inner = ['"', '\''].iter().find_map(|quote| {
            value.strip_prefix(*quote).and_then(|value| value.strip_suffix(*quote))
        });
        inner.unwrap_or(value).to_owned()
    };
    pairs.map(|(name, value)| (name.trim().to_owned(), unquoted(value.trim()))).collect()
}

/// The request of a job, with the checks of the server that need no server.
fn request(job: &ImportedJob, file: &str) -> Result<Request> {
    let at_job = |failure: Failure| {
        failure.why(format!("job {} begins in {file}, line {}", job.name, job.line))
    };
    let flags = JobFlags::read(&job.words()).map_err(at_job)?;
    let request = request::of_command(flags, &job.command).map_err(at_job)?;
    let checked = request.job.check("/");
    checked.map_err(|refusal| at_job(Failure::from(Problem::from(refusal))))?;
    Ok(request)
}

/// Submits the jobs in order; returns their IDs.
fn submit(import: &Import, requests: Vec<Request>, session: &Session) -> Result<Vec<String>> {
    let client = session.client()?;
    let mut ids: Vec<String> = Vec::new();
    for (job, mut request) in import.jobs.iter().zip(requests) {
        let after = job.after.iter();
        request.after = after.map(|on| format!("{}:{}", on.kind, ids[on.job_ix])).collect();
        let submitted = request.resolve(&client, session).and_then(|()| {
            say(&request, session);
            hand_in(&client, &request)
        });
        match submitted {
            Ok(submitted) => {
                note_terms(&submitted, session);
                ids.push(submitted.id);
            }
            Err(failure) if ids.is_empty() => return Err(failure),
            Err(failure) => {
                let earlier = ids.join(" ");
                return Err(failure
                    .why(format!("jobs of the file that are submitted: {earlier}"))
                    .tip(format!("gpool cancel {earlier}")));
            }
        }
    }
    Ok(ids)
}

/// The jobs and notes as JSON; jobs have IDs once they are submitted.
fn document(import: &Import, ids: &[String]) -> Value {
    let job = |(ix, job): (usize, &ImportedJob)| {
        let after: Vec<Value> =
            job.after.iter().map(|on| json!({"kind": on.kind, "job": on.job_ix})).collect();
        json!({
            "id": ids.get(ix),
            "name": job.name,
            "line": job.line,
            "flags": job.words(),
            "command": job.command,
            "after": after,
        })
    };
    let notes = import.notes.iter().map(|note| {
        json!({
            "line": note.line,
            "key": note.key,
            "fate": note.fate.word(),
            "text": note.text,
        })
    });
    json!({
        "kind": import.kind.name(),
        "jobs": import.jobs.iter().enumerate().map(job).collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
    })
}
