//! `gpool download`: fetches the results of a job into a folder.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::labelled;
use gpool_cli::reference::Reference;
use gpool_cli::render::{json, safe::safe, words};
use gpool_cli::resolve;
use gpool_cli::session::Session;
use gpool_client::{Client, Error};
use gpool_files::fetch::{self, Fetched};
use gpool_files::{Manifest, ObjectId};
use gpool_model::{Bytes, Millis, parse};
use gpool_wire::catalogue;
use gpool_wire::files::{JobResults, TaskResults};

/// Between two questions whether the results are there.
const LOOK: Duration = Duration::from_millis(200);
/// How long to wait for results of a job that has ended, by default.
pub const WAIT: Duration = Duration::from_secs(60);
/// The most paths that a message lists.
const LISTED_MAX: usize = 10;

#[derive(Debug, Clone, Args)]
pub struct DownloadArgs {
    /// Job that has ended, e.g. 1842 or 1842.3
    #[arg(value_name = "JOB")]
    job: Reference,
    /// Folder for the results (default: the working folder)
    #[arg(value_name = "DIR", default_value = ".", hide_default_value = true)]
    folder: PathBuf,
    /// Replace existing files with another content
    #[arg(long)]
    force: bool,
    /// Longest wait for nodes that have not sent their results yet (default: 1m), e.g. 10m
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    wait: Option<Millis>,
}

/// Runs the verb.
///
/// # Errors
/// The job has no results, or a file exists with another content.
pub fn run(args: &DownloadArgs, session: &Session) -> Result {
    let client = session.listener()?;
    let (id, _) = resolve::one(&client, &args.job, session.me())?;
    let wait = args.wait.map_or(WAIT, |wait| Duration::from_millis(wait.get()));
    let download = Download { client: &client, session, id: &id, force: args.force };
    let results = download.run(&args.folder, wait)?;
    if session.global.json {
        session.screen.data(&json::one(&results))?;
    }
    Ok(Exit::OK)
}

/// Fetches the results of a job that has just ended into the working folder.
///
/// # Errors
/// As for [`run`].
pub fn after_run(client: &Client, id: &str, session: &Session) -> Result<()> {
    let download = Download { client, session, id, force: false };
    download.run(Path::new("."), WAIT).map(drop)
}

struct Download<'c> {
    client: &'c Client,
    session: &'c Session,
    id: &'c str,
    force: bool,
}

impl Download<'_> {
    fn run(&self, folder: &Path, wait: Duration) -> Result<JobResults> {
        let results = self.results(wait)?;
        let is_gang = labelled::n_tasks(&self.client.job(self.id)?) > 1;
        let mut tasks = Vec::new();
        for task in &results.results {
            let into = match is_gang {
                true => folder.join(format!("rank-{}", task.rank)),
                false => folder.to_owned(),
            };
            let bytes = self.client.result_object(self.id, &task.manifest)?;
            let manifest = Manifest::read(&bytes)
                .map_err(|error| Failure::new(errors::INTERNAL, error.to_string()))?;
            tasks.push((task, manifest, into));
        }
        // All of them are checked before the first file is written.
        if !self.force {
            self.check(&tasks)?;
        }
        for (task, manifest, into) in &tasks {
            let fetched = self.fetch(manifest, into)?;
            self.note(task, fetched, into);
        }
        Ok(results)
    }

    /// Waits until each node has sent its results.
    fn results(&self, wait: Duration) -> Result<JobResults> {
        let since = Instant::now();
        loop {
            let results = self.client.results(self.id)?;
            if results.pending.is_empty() {
                return Ok(results);
            }
            if since.elapsed() >= wait {
                let nodes = results.pending.join(", ");
                let what = format!("the results of job {} are not complete yet", self.id);
                return Err(Failure::new(catalogue::NO_RESULTS, what)
                    .why(format!("not yet sent by {nodes}"))
                    .tip(format!("gpool download {} --wait 1h", self.id))
                    .tip("gpool nodes   (shows nodes that are away)"));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn check(&self, tasks: &[(&TaskResults, Manifest, PathBuf)]) -> Result<()> {
        let mut found = Vec::new();
        for (_, manifest, into) in tasks {
            let conflicts = fetch::conflicts(manifest, into);
            found.extend(conflicts.map_err(|error| not_written(into, &error))?);
        }
        if found.is_empty() {
            return Ok(());
        }
        let n = words::count(found.len() as u64, "path");
        let what = format!("{n} of the results exist with another content; nothing was written");
        let listed = found.iter().take(LISTED_MAX);
        let failure = listed.fold(Failure::new(errors::FILES_DIFFER, what), |failure, path| {
            failure.why(path.display().to_string())
        });
        let id = self.id;
        Err(failure
            .tip(format!("gpool download {id} results-{id}   (another folder)"))
            .tip(format!("gpool download {id} --force   (replaces them)")))
    }

    fn fetch(&self, manifest: &Manifest, into: &Path) -> Result<Fetched> {
        let mut lost: Option<Error> = None;
        let mut object = |id: &ObjectId| {
            let bytes = self.client.result_object(self.id, &id.to_string());
            let bytes = bytes.map_err(|error| {
                lost = Some(error);
                io::Error::other("the server did not send an object")
            })?;
            match ObjectId::of(&bytes) == *id {
                true => Ok(bytes),
                false => Err(io::Error::other("the server sent wrong bytes")),
            }
        };
        let fetched = fetch::write(manifest, into, &mut object);
        match (fetched, lost) {
            (_, Some(error)) => Err(Failure::from(error)),
            (fetched, None) => fetched.map_err(|error| not_written(into, &error)),
        }
    }

    fn note(&self, task: &TaskResults, fetched: Fetched, into: &Path) {
        let n_all = fetched.n_written + fetched.n_same;
        let (size, shown) = (Bytes::new(task.size), into.display());
        let same = match fetched.n_same {
            0 => String::new(),
            n => format!("; {n} had this content already"),
        };
        let files = words::count(n_all as u64, "file");
        let text = format!("results of job {}: {files}, {size}, in {shown}{same}", self.id);
        self.session.screen.note(&safe(&text));
        for path in task.left_out.iter().take(LISTED_MAX) {
            self.session.screen.warn(&safe(&format!("not in the results: {path}")));
        }
    }
}

fn not_written(into: &Path, error: &io::Error) -> Failure {
    let what = format!("can't write the results into {}: {error}", into.display());
    Failure::new(errors::NOT_WRITTEN, what).tip("repeat the command; it goes on")
}
