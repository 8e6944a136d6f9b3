//! `gjob redo`: runs a job again with changes, together with the jobs that were cancelled because
//! it failed.

use std::collections::BTreeMap;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, row};
use gpool_cli::foreign::gflow::translate;
use gpool_cli::reference::{Reference, ReferenceError};
use gpool_cli::resolve::{self, every_job};
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_model::{JobId, JobVerb};
use gpool_wire::Job;

use crate::shim::{gpool, print};

const ANEW: &str = "submit it again with this flag";

pub(super) static FLAGS: &[Flag] = &[
    row("cascade", '\0', Nothing, Covered, "also jobs that were cancelled because it failed"),
    row("clear-deps", '\0', Nothing, Covered, "a job that ran once does not wait again"),
    row("conda-env", 'e', Value, Instead, ANEW),
    row("depends-on", 'd', Value, Covered, "gpool edit --after"),
    row("gpu-memory", '\0', Value, Instead, ANEW).also(&["max-gpu-mem"]),
    row("gpus", 'g', Value, Covered, "gpool edit --gpus"),
    row("memory", 'm', Value, Covered, "gpool edit --mem"),
    row("priority", 'p', Value, Covered, "gpool edit --priority, less 10"),
    row("time", 't', Value, Covered, "gpool edit --time"),
];

/// Runs the command.
///
/// # Errors
/// The job has not ended, or a change is refused; then nothing runs again.
pub fn run(args: &ParsedArgs, session: &Session) -> Result {
    let [word] = args.words.as_slice() else {
        return Err(Failure::new(errors::USAGE, "gjob redo: give one job").tip("gjob redo 7"));
    };
    let changes = changes(args)?;
    if changes.is_empty() && !args.has("cascade") {
        return gpool(&["retry".to_owned(), word.clone()], session);
    }
    let client = session.client()?;
    let invalid = |error: ReferenceError| Failure::new(errors::INVALID, error.to_string());
    let reference: Reference = word.parse().map_err(invalid)?;
    let (id, _) = resolve::one(&client, &reference, session.me())?;
    let dependents = if args.has("cascade") { cancelled(&client)? } else { Vec::new() };
    // All new jobs stay held until every change is made.
    let mut again = BTreeMap::new();
    let made = remake(&client, &id, &changes, &dependents, &mut again, session);
    let new: Vec<String> = again.values().cloned().collect();
    if let Err(failure) = made {
        if !new.is_empty() {
            client.cancel(&new)?;
        }
        return Err(failure);
    }
    client.act(JobVerb::Release { at: None }, &new)?;
    let line = |(old, new): (&String, &String)| format!("job {old} runs again as job {new}\n");
    print(&again.iter().map(line).collect::<String>(), session)?;
    Ok(Exit::OK)
}

/// The changes as flags of `gpool edit`.
fn changes(args: &ParsedArgs) -> Result<Vec<String>> {
    let mut flags = Vec::new();
    for given in &args.flags {
        flags.extend(match given.flag.long {
            "depends-on" => Some(format!("--after={}", given.value)),
            "gpus" => Some(format!("--gpus={}", given.value)),
            "memory" => Some(format!("--mem={}M", translate::mebibytes(given)?)),
            "priority" => Some(format!("--priority={}", translate::priority(given)?)),
            "time" => Some(format!("--time={}s", translate::seconds(given)?)),
            _ => None,
        });
    }
    Ok(flags)
}

/// Jobs that never ran because a dependency failed, in the order of submission.
fn cancelled(client: &Client) -> Result<Vec<Job>> {
    let query = JobsQuery { state: Some("cancelled".to_owned()), ..JobsQuery::default() };
    let mut jobs = every_job(client, &query)?;
    jobs.retain(|job| job.run.cause.as_deref() == Some("dependency_failed"));
    jobs.sort_by_key(|job| job.id.parse::<JobId>().ok());
    Ok(jobs)
}

/// Submits a job and its dependents again, held. `again` gets the new id of each.
fn remake(
    client: &Client,
    id: &str,
    changes: &[String],
    dependents: &[Job],
    again: &mut BTreeMap<String, String>,
    session: &Session,
) -> Result<()> {
    let one = |id: &str, changes: &[String], again: &mut BTreeMap<String, String>| {
        let new = client.retry_held(id)?.id;
        again.insert(id.to_owned(), new.clone());
        if changes.is_empty() {
            return Ok(());
        }
        let edit = ["edit".to_owned(), new].into_iter().chain(changes.iter().cloned());
        gpool(&edit.collect::<Vec<_>>(), session).map(|_| ())
    };
    one(id, changes, again)?;
    for job in dependents {
        let renamed = |written: &Vec<String>| -> Option<String> {
            let (mut list, mut is_any) = (Vec::new(), false);
            for dependency in written {
                let (kind, waited) = dependency.split_once(':').unwrap_or(("ok", dependency));
                let new = again.get(waited);
                is_any |= new.is_some();
                list.push(format!("{kind}:{}", new.map_or(waited, String::as_str)));
            }
            is_any.then(|| list.join(","))
        };
        let (after, after_one) = (renamed(&job.request.after), renamed(&job.request.after_one));
        let flags: Vec<String> = after
            .map(|jobs| format!("--after={jobs}"))
            .into_iter()
            .chain(after_one.map(|jobs| format!("--after-one={jobs}")))
            .collect();
        if !flags.is_empty() {
            one(&job.id, &flags, again)?;
        }
    }
    Ok(())
}
