//! The tools that need a permission.

use gpool_cli::caller;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_client::new_key;
use gpool_wire::{JobCreate, catalogue};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::asks::{id_of, value};

/// The job of the arguments. It has the folder of this process, and only HOME, PATH, USER and LANG
/// of its environment: that of an assistant has secrets.
fn request(arguments: &Arguments) -> Result<JobCreate> {
    let mut job: JobCreate = serde_json::from_value(arguments.object()).map_err(|error| {
        Failure::new(catalogue::INVALID, format!("the job is not valid: {error}"))
    })?;
    let environment = caller::environment(true, &[])?;
    for (name, value) in environment.text {
        job.environment.entry(name).or_insert(value);
    }
    if job.directory.is_none() {
        job.directory = caller::directory(None)?;
    }
    job.umask = caller::umask();
    Ok(job)
}

pub(crate) fn preview(session: &Session, arguments: &Arguments) -> Result<Value> {
    value(session.client()?.forecast(&request(arguments)?)?)
}

pub(crate) fn submit(session: &Session, arguments: &Arguments) -> Result<Value> {
    let job = session.client()?.submit(&request(arguments)?, Some(&new_key()))?;
    Ok(json!({"job": value(job)?}))
}

pub(crate) fn cancel(session: &Session, arguments: &Arguments) -> Result<Value> {
    let client = session.client()?;
    let jobs = arguments.texts("jobs");
    if jobs.is_empty() {
        return Err(Failure::new(catalogue::INVALID, "no job is named").tip("{\"jobs\": [\"17\"]}"));
    }
    let ids: Vec<String> =
        jobs.iter().map(|job| id_of(&client, session, job)).collect::<Result<_>>()?;
    Ok(json!({"jobs": value(client.cancel(&ids)?.items)?}))
}
