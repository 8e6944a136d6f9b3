//! `gcancel`: ends jobs.

use std::fmt::Write as _;

use gpool_cli::act::Each;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, Spoken, row};
use gpool_cli::foreign::gflow::flags::CONFIG;
use gpool_cli::reference::Reference;
use gpool_cli::render::safe::safe;
use gpool_cli::resolve::{self, JobScope, every_job};
use gpool_cli::session::Session;
use gpool_client::JobsQuery;
use gpool_wire::Job;

use super::completion;
use crate::shim::{gpool, print, read};

static FLAGS: &[Flag] = &[
    row("cancel", '\0', Nothing, Covered, "gcancel cancels without it, too").also(&["kill"]),
    row("dry-run", '\0', Nothing, Covered, "shows the jobs that it would end"),
    row("fail", '\0', Value, Instead, "jobs report their result by their end"),
    row("finish", '\0', Value, Instead, "jobs report their result by their end"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

pub static SPOKEN: Spoken =
    Spoken { name: "gcancel", about: "End jobs of gpool", flags: &[FLAGS, CONFIG], words: "IDS" };

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    if let [word, rest @ ..] = words
        && word == "completion"
    {
        return completion(rest, session);
    }
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    if args.words.is_empty() {
        return Err(Failure::new(errors::USAGE, "gcancel: which job?").tip("gcancel 1-3,7"));
    }
    if !args.has("dry-run") {
        let words = std::iter::once("cancel".to_owned()).chain(args.words);
        return gpool(&words.collect::<Vec<_>>(), session);
    }
    let mut references = Vec::new();
    for word in &args.words {
        let read = Reference::list(word);
        references.extend(read.map_err(|e| Failure::new(errors::INVALID, e.to_string()))?);
    }
    let client = session.client()?;
    let mut found =
        resolve::each(&client, references.iter(), None, session.me(), JobScope::Living)?;
    let living = every_job(&client, &JobsQuery::default())?;
    let mut text = String::new();
    for id in &found.ids {
        let job = client.job(id)?;
        if job.state.is_end() {
            let _ = writeln!(text, "Job {id} has already ended: {}", job.state.as_str());
            continue;
        }
        let _ = writeln!(text, "Would cancel job {id} ({})", safe(&job.name));
        text.push_str(&left_waiting(&living, &found.ids, id));
    }
    let exit = print(&text, session)?;
    Each::of(&mut found).end("cancel", exit)
}

/// The jobs that wait for a cancelled one and are not cancelled themselves.
fn left_waiting(living: &[Job], cancelled: &[String], id: &str) -> String {
    let waits = |job: &&Job| {
        let mut waited = job.request.after.iter().filter_map(|after| after.rsplit(':').next());
        waited.any(|waited| waited == id) && !cancelled.contains(&job.id)
    };
    let line = |job: &Job| format!("  - Job {} ({})\n", job.id, safe(&job.name));
    let lines: String = living.iter().filter(waits).map(line).collect();
    match lines.as_str() {
        "" => lines,
        lines => format!("Warning: these jobs wait for job {id}:\n{lines}"),
    }
}
