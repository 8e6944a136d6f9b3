//! The tools that read.

use std::io::Read as _;

use gpool_cli::failure::{Failure, Result};
use gpool_cli::reference::Reference;
use gpool_cli::resolve;
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery, LogQuery, LogStream};
use gpool_wire::{Quantity, SimulateAsk, catalogue};
use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::{only, without};
use crate::arguments::Arguments;

/// The largest output of a job in an answer, in bytes.
const OUTPUT_MAX: u64 = 64 * 1024;

/// The fields of a job in a list.
const IN_LIST: &[&str] = &[
    "id",
    "name",
    "user",
    "project",
    "state",
    "group",
    "priority",
    "submitted_at",
    "started_at",
    "ended_at",
    "end",
    "note",
];

pub(crate) fn value(answer: impl Serialize) -> Result<Value> {
    serde_json::to_value(answer).map_err(|error| {
        Failure::new(gpool_cli::errors::INTERNAL, format!("an answer is no JSON: {error}"))
    })
}

/// The ID of a job from a reference.
pub(crate) fn id_of(client: &Client, session: &Session, text: &str) -> Result<String> {
    let reference: Reference = text.parse().map_err(|why| {
        Failure::new(catalogue::INVALID, format!("{text:?} is no job: {why}"))
            .tip("17, 17.3, a name, or @")
    })?;
    resolve::one(client, &reference, session.me()).map(|(id, _)| id)
}

pub(crate) fn why(session: &Session, arguments: &Arguments) -> Result<Value> {
    let client = session.client()?;
    let id = id_of(&client, session, &arguments.text("job").unwrap_or_default())?;
    value(client.why(&id)?)
}

pub(crate) fn queue(session: &Session, arguments: &Arguments) -> Result<Value> {
    let client = session.client()?;
    let limit = arguments.number("limit").unwrap_or(20).clamp(1, 200);
    let query = JobsQuery {
        state: arguments.text("state"),
        user: arguments.text("user"),
        project: arguments.text("project"),
        group: arguments.text("group"),
        limit: u32::try_from(limit).ok(),
        ..JobsQuery::default()
    };
    let page = client.jobs(&query)?;
    let has_more = page.next_cursor.is_some();
    let jobs: Vec<Value> = page.items.iter().map(listed).collect::<Result<_>>()?;
    Ok(json!({"jobs": jobs, "has_more": has_more}))
}

/// A job in a list.
fn listed(job: &gpool_wire::Job) -> Result<Value> {
    let whole = value(job)?;
    let mut listed = only(&whole, IN_LIST);
    listed["gpus"] = job.request.gpus_text().into();
    let nodes: Vec<&Value> =
        whole["placement"].as_array().into_iter().flatten().map(|place| &place["node"]).collect();
    listed["nodes"] = json!(nodes);
    if let Some(first) = job.wait.reasons.first() {
        listed["waits_for"] = json!({"code": first.code, "text": first.text});
    }
    Ok(listed)
}

pub(crate) fn gpus(session: &Session, _: &Arguments) -> Result<Value> {
    let gpus = session.client()?.gpus()?.items;
    // The mechanisms of enforcement are equal for most GPUs, and long.
    let gpus: Vec<Value> =
        gpus.iter().map(|gpu| Ok(without(value(gpu)?, "enforcement"))).collect::<Result<_>>()?;
    Ok(json!({"gpus": gpus}))
}

pub(crate) fn job(session: &Session, arguments: &Arguments) -> Result<Value> {
    let client = session.client()?;
    let id = id_of(&client, session, &arguments.text("job").unwrap_or_default())?;
    let job = client.job(&id)?;
    let lines = arguments.number("lines").unwrap_or(20).min(500);
    let output = output(&client, &id, lines);
    // A job that never started has no report.
    let report = client.report(&id).ok().map(value).transpose()?;
    let report = report.map(|report| without(report, "job"));
    Ok(json!({"job": value(&job)?, "output": output, "report": report}))
}

/// The last lines of both streams; none if the node does not answer.
fn output(client: &Client, id: &str, lines: u64) -> Option<String> {
    if lines == 0 {
        return None;
    }
    let query = LogQuery { stream: LogStream::Both, tail: Some(lines), ..LogQuery::default() };
    let mut bytes = Vec::new();
    client.logs(id, &query).ok()?.take(OUTPUT_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn waste(session: &Session, arguments: &Arguments) -> Result<Value> {
    let limit = arguments.number("limit").unwrap_or(10).clamp(1, 100);
    let rows = session.client()?.waste(None, usize::try_from(limit).ok(), false)?;
    Ok(json!({"jobs": value(rows)?}))
}

pub(crate) fn quota(session: &Session, _: &Arguments) -> Result<Value> {
    value(session.client()?.quota()?)
}

pub(crate) fn what_if(session: &Session, arguments: &Arguments) -> Result<Value> {
    let ask = SimulateAsk {
        supposed: arguments.texts("changes"),
        horizon: arguments.text("for").map(Quantity::Text),
        past: arguments.text("past").map(Quantity::Text),
    };
    value(session.client()?.simulate(&ask)?)
}
