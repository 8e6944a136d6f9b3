//! `gpool edit` without flags: what can change, as text in the user's editor.

use std::io::IsTerminal as _;
use std::process::Command;

use gpool_cli::args::jobs::Jobs;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::resolve;
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_wire::field::{Field, Group, fields};
use gpool_wire::{Job, JobCreate, JobPatch};
use serde_json::{Map, Value, json};

/// What the user made of the job, with its id and the version that was shown; `None` if there is
/// nobody to ask, or more than one job, or nothing was changed.
///
/// # Errors
/// The editor fails, or what it left is not understood.
pub fn patch_from_editor(
    jobs: &Jobs,
    client: &Client,
    session: &Session,
) -> Result<Option<(String, JobPatch, u64)>> {
    let mut references = jobs.references();
    let (Some(reference), None) = (references.next(), references.next()) else { return Ok(None) };
    let is_there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let editor = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR"));
    let (true, Ok(editor)) = (is_there, editor) else { return Ok(None) };
    let (id, _) = resolve::one(client, reference, session.me())?;
    let job = client.job(&id)?;
    let before = editable(&job);
    let failed = |why: String| Failure::new(errors::USAGE, why);
    let file = tempfile::Builder::new().prefix("gpool-edit-").suffix(".toml").tempfile();
    let file = file.map_err(|error| failed(format!("can't create a file to edit: {error}")))?;
    let text = format!(
        "# Job {id}. Delete a line to remove an optional setting.\n{}",
        toml::to_string(&before).map_err(|error| failed(error.to_string()))?
    );
    std::fs::write(file.path(), text).map_err(|error| failed(error.to_string()))?;
    // As a shell takes it: editors have flags.
    let path = file.path().as_os_str();
    let line = format!("{editor} \"$1\"");
    let ran = Command::new("/bin/sh").args(["-c", &line, "sh"]).arg(path).status();
    match ran {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(failed(format!("{editor} failed: {status}"))),
        Err(error) => return Err(failed(format!("can't start {editor}: {error}"))),
    }
    let text = std::fs::read_to_string(file.path()).map_err(|error| failed(error.to_string()))?;
    let patch = patch(&before, &text).map_err(failed)?;
    Ok(patch.map(|patch| (id, patch, job.version)))
}

/// Returns the fields that can change, as a patch writes them.
///
/// The program is left out, because a script is not shown, and so are the addresses of messages,
/// which are shown without their paths.
fn editable(job: &Job) -> Map<String, Value> {
    let (name, project) = (Some(job.name.clone()), Some(job.project.clone()));
    let request = JobCreate { name, project, ..job.request.clone() };
    let Ok(Value::Object(mut shown)) = serde_json::to_value(request) else { return Map::new() };
    // A bare number in text is minutes, and in the API seconds.
    if let Some(seconds) = job.request.time_seconds() {
        shown.insert("time".to_owned(), json!(format!("{seconds}s")));
    }
    let is_wanted =
        |field: &&Field| field.is_editable() && field.group == Group::Own && field.key != "notify";
    let value = |field: &Field| match shown.remove(field.key) {
        Some(Value::Null) | None => None,
        Some(value) => Some((field.key.to_owned(), value)),
    };
    fields().filter(is_wanted).filter_map(value).collect()
}

/// Returns the difference between the text and the fields that it showed.
pub fn patch(
    before: &Map<String, Value>,
    text: &str,
) -> std::result::Result<Option<JobPatch>, String> {
    let after: Map<String, Value> = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut changes = Map::new();
    for (name, value) in &after {
        if before.get(name) != Some(value) {
            changes.insert(name.clone(), value.clone());
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let patch: JobPatch = gpool_wire::json::read(Value::Object(changes).to_string().as_bytes())
        .map_err(|problem| [&[problem.detail], &*problem.tries].concat().join("; "))?;
    patch.check().map_err(|refusal| gpool_wire::Problem::from(refusal).detail)?;
    Ok(Some(patch))
}
