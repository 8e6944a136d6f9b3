//! Moves jobs from gflow to gpool so that none is lost and none runs twice. First each job is
//! stored in gpool, held. Then it is held in gflow, which fails if it has started. Then gflow
//! cancels the jobs, the last first, since it cancels dependents with a job. At last gpool releases
//! them.

use std::collections::BTreeMap;

use gpool_cli::failure::Result;
use gpool_cli::hand_in::say;
use gpool_cli::resolve::every_job;
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_model::JobVerb;
use gpool_wire::{JobCreate, JobPatch, catalogue};

use super::job::TheirJob;
use super::queue::GflowQueue;

/// The result of a job's import.
pub struct JobImport {
    /// Its id in gflow.
    pub theirs: u64,
    /// Its id in gpool.
    pub ours: Option<String>,
    /// A description.
    pub what: String,
}

/// The note of a job during its move. A short job may end with it.
const MOVING: &str = "imported from gflow job ";
/// The note of an imported job.
const FROM: &str = "from gflow job ";

/// A job that is in both queues, held in gpool.
struct Moving<'j> {
    job: &'j TheirJob,
    ours: String,
}

/// Imports the caller's waiting jobs.
///
/// # Errors
/// gflow or gpool does not answer; a repeated import continues from there.
pub fn take(queue: &GflowQueue, dry_run: bool, session: &Session) -> Result<Vec<JobImport>> {
    let jobs = queue.jobs()?;
    let client = session.client()?;
    let mut imports = Vec::new();
    if !dry_run {
        finish_earlier(&client, &jobs, &mut imports, session)?;
    }
    let mut moving: Vec<Moving<'_>> = Vec::new();
    for job in &jobs {
        let ids: BTreeMap<u64, &str> =
            moving.iter().map(|moving| (moving.job.id, moving.ours.as_str())).collect();
        let stays = stays(job, &jobs, &ids, session);
        if let Some(why) = stays {
            imports.extend(why.map(|what| JobImport { theirs: job.id, ours: None, what }));
            continue;
        }
        match submit(queue, &client, job, &ids, dry_run, session) {
            Ok(ours) => moving.push(Moving { job, ours }),
            // A job that gpool refuses stays in gflow; the others are imported.
            Err(failure) if failure.exit().0 != 3 => {
                let what = format!("stays there: {}", failure.what());
                imports.push(JobImport { theirs: job.id, ours: None, what });
            }
            Err(failure) => return Err(failure),
        }
    }
    if dry_run {
        let what = |job: &TheirJob| if job.is_held() { "would come, held" } else { "would come" };
        let of = |moving: &Moving<'_>| JobImport {
            theirs: moving.job.id,
            ours: None,
            what: what(moving.job).to_owned(),
        };
        imports.extend(moving.iter().map(of));
    } else {
        let moving = hold_there(queue, &client, moving, &mut imports)?;
        for moving in moving.iter().rev() {
            queue.act(moving.job.id, "cancel")?;
        }
        for moving in &moving {
            release(&client, moving.job.is_held(), moving.job.id, &moving.ours)?;
            let what = if moving.job.is_held() { "taken over, held" } else { "taken over" };
            let ours = Some(moving.ours.clone());
            imports.push(JobImport { theirs: moving.job.id, ours, what: what.to_owned() });
        }
    }
    imports.sort_by_key(|taken| taken.theirs);
    Ok(imports)
}

/// Whether a job stays in gflow, and why.
fn stays(
    job: &TheirJob,
    jobs: &[TheirJob],
    moving: &BTreeMap<u64, &str>,
    session: &Session,
) -> Option<Option<String>> {
    if job.state == "Running" {
        let what = "continues in gflow; its GPUs are unmanaged until it ends";
        return Some(Some(what.to_owned()));
    }
    if !job.is_waiting() {
        return Some(None);
    }
    if job.submitted_by != session.me() {
        let user = &job.submitted_by;
        return Some(Some(format!("stays in gflow: {user} has to import it")));
    }
    let state = |id: u64| jobs.iter().find(|other| other.id == id).map(|other| &*other.state);
    let open = job.depends_on_ids.iter().find(|id| {
        // A dependency that succeeded no longer matters.
        !moving.contains_key(id) && state(**id) != Some("Finished")
    })?;
    let is = state(*open).map_or("is not known", |state| match state {
        "Running" => "runs there",
        "Queued" | "Hold" => "stays there",
        _ => "did not succeed",
    });
    Some(Some(format!("stays in gflow: it waits for job {open}, which {is}")))
}

/// Submits a job to gpool, held, and returns its id. A repeated submission returns the same job.
fn submit(
    queue: &GflowQueue,
    client: &Client,
    job: &TheirJob,
    moving: &BTreeMap<u64, &str>,
    dry_run: bool,
    session: &Session,
) -> Result<String> {
    let after: Vec<String> = job
        .depends_on_ids
        .iter()
        .filter_map(|id| moving.get(id))
        .map(|id| (*id).to_owned())
        .collect();
    let note = format!("{}{}", if job.is_held() { FROM } else { MOVING }, job.id);
    if dry_run {
        // In a dry run its dependencies have no ids in gpool.
        let mut request = job.request(&[], &note)?;
        request.resolve(client, session)?;
        say(&request, session);
        client.forecast(&request.job)?;
        return Ok("?".to_owned());
    }
    let mut request = job.request(&after, &note)?;
    request.resolve(client, session)?;
    say(&request, session);
    let key = job.key(&queue.url);
    match client.submit(&request.job, Some(&key)) {
        Ok(ours) => Ok(ours.id),
        // An earlier import submitted it from another environment.
        Err(error) if error.problem().code == catalogue::KEY_REUSED.to_string() => {
            let living = every_job(client, &JobsQuery::default())?;
            let is_it = |ours: &&gpool_wire::Job| ours.request.note.as_deref() == Some(&*note);
            match living.iter().find(is_it) {
                Some(ours) => Ok(ours.id.clone()),
                None => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Holds the jobs in gflow. A job that has started meanwhile stays there, with its dependents.
fn hold_there<'j>(
    queue: &GflowQueue,
    client: &Client,
    moving: Vec<Moving<'j>>,
    imports: &mut Vec<JobImport>,
) -> Result<Vec<Moving<'j>>> {
    let mut stay: Vec<u64> = Vec::new();
    let mut held = Vec::new();
    for one in moving {
        let waits_for_one = one.job.depends_on_ids.iter().any(|id| stay.contains(id));
        if !waits_for_one && (one.job.is_held() || queue.act(one.job.id, "hold")?) {
            held.push(one);
            continue;
        }
        stay.push(one.job.id);
        client.cancel(std::slice::from_ref(&one.ours))?;
        let what = match waits_for_one {
            true => "stays in gflow: a job that it waits for has started there",
            false => "has started in gflow in the meantime, and stays there",
        };
        imports.push(JobImport { theirs: one.job.id, ours: None, what: what.to_owned() });
    }
    Ok(held)
}

fn release(client: &Client, stays_held: bool, theirs: u64, ours: &str) -> Result<()> {
    if !stays_held {
        client.act(JobVerb::Release { at: None }, &[ours.to_owned()])?;
        let note = Some(format!("{FROM}{theirs}"));
        let patch = JobPatch::from(JobCreate { note, ..JobCreate::default() });
        match client.edit(ours, &patch, None) {
            // It was short; only a held job with this note is released by a later import.
            Err(error) if error.problem().code == catalogue::ALREADY_ENDED.to_string() => {}
            edited => drop(edited?),
        }
    }
    Ok(())
}

/// Releases jobs that an interrupted import had already cancelled in gflow.
fn finish_earlier(
    client: &Client,
    jobs: &[TheirJob],
    imports: &mut Vec<JobImport>,
    session: &Session,
) -> Result<()> {
    let query = JobsQuery {
        state: Some("held".to_owned()),
        user: Some(session.me().to_owned()),
        ..JobsQuery::default()
    };
    for ours in every_job(client, &query)? {
        let moving = ours.request.note.as_deref().and_then(|note| note.strip_prefix(MOVING));
        let Some(theirs) = moving.and_then(|id| id.parse::<u64>().ok()) else { continue };
        let there = jobs.iter().find(|job| job.id == theirs);
        if there.is_some_and(|job| job.state == "Cancelled") {
            release(client, false, theirs, &ours.id)?;
            let what = "imported; completes an earlier import".to_owned();
            imports.push(JobImport { theirs, ours: Some(ours.id), what });
        }
    }
    Ok(())
}
