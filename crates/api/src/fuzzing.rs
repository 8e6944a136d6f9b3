//! The parsers of requests as the fuzz targets see them: each as its route uses it, with nothing
//! behind it.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use gpool_model::command::NewJob;
use gpool_model::{Caller, Owner};
use gpool_wire::{AllowDevices, Problem, Selection, json};

use super::asker::{Asker, parse_limits};
use super::bulk::BulkLines;
use super::changes::Portion;
use super::extract::{ApiError, check_type, job_id, params};
use super::listing::{self, ListParams};
use super::logs::{LogParams, since_of};
use super::submit::DryRun;
use super::{actions, jobs};
use super::{device_list, idempotency};
use gpool_server::feed::place_of;

/// The epoch in the event IDs that are parsed.
pub const EPOCH: u64 = 17;

fn problem(error: impl Into<ApiError>) -> Problem {
    *error.into().0
}

/// The query of `GET /jobs`; its cursor as it would be given out.
pub fn list(uri: &Uri) -> Result<String, Problem> {
    let asked: ListParams = params(uri)?;
    let cursor = asked.cursor.as_deref().map(listing::cursor_of).transpose().map_err(problem)?;
    listing::limit(asked.limit).map_err(problem)?;
    let states = listing::states(asked.state.as_deref()).map_err(problem)?;
    assert!(!states.is_empty(), "{:?} does not name a state", asked.state);
    Ok(cursor.map(listing::in_text).unwrap_or_default())
}

/// The query of `GET /jobs/{id}/logs`.
pub fn logs(uri: &Uri) -> Result<(), Problem> {
    let asked: LogParams = params(uri)?;
    asked.since.as_deref().map(since_of).transpose().map(drop).map_err(problem)
}

/// The query of the routes that submit.
pub fn dry_run(uri: &Uri) -> Result<bool, Problem> {
    params::<DryRun>(uri).map(|asked| asked.dry_run)
}

/// The job of a path.
pub fn id(text: &str) -> Result<String, Problem> {
    job_id(text).map(|id| id.to_string()).map_err(problem)
}

/// All that is read of headers.
pub fn header(name: HeaderName, value: &HeaderValue) -> Result<(), Problem> {
    let headers = HeaderMap::from_iter([(name, value.clone())]);
    idempotency::key_name(&headers).map_err(problem)?;
    if let Ok(text) = value.to_str() {
        // An id of another server is no error.
        let _ = place_of(EPOCH, text);
        jobs::version_of(text).map_err(problem)?;
    }
    check_type(&headers, &["application/json"]).map_err(problem)
}

/// The jobs of `POST /jobs/cancel` and the like.
pub fn selected(body: &[u8]) -> Result<usize, Problem> {
    let selection: Selection = json::read(body)?;
    actions::selected(&selection.jobs).map(|jobs| jobs.len()).map_err(problem)
}

/// The devices of `POST /gpus/allow`, written out; `None` for all.
pub fn devices(body: &[u8]) -> Result<Option<Vec<String>>, Problem> {
    let allow: AllowDevices = json::read(body)?;
    device_list::devices_of(&allow.devices).map_err(problem)
}

/// The jobs of `POST /jobs/bulk` with the lines that they stand on, if its body comes in these
/// parts.
pub fn bulk(parts: &[&[u8]]) -> Result<Vec<(u64, NewJob)>, Problem> {
    let owner = Owner { uid: 1000, gid: 1000, user: Arc::from("ana") };
    let caller = Caller::new(owner, false);
    let asker = Asker::new(caller, "/home/ana".to_owned(), None);
    let mut lines = BulkLines::new(None, Arc::new(asker), Portion::unlimited());
    for part in parts {
        lines.gathered.extend_from_slice(part);
        lines.take(false).map_err(problem)?;
    }
    lines.take(true).map_err(problem)?;
    Ok(lines.numbers.into_iter().zip(lines.jobs).collect())
}

/// How many resource limits stand in what the kernel says of a process.
#[must_use]
pub fn limits(text: &str) -> usize {
    parse_limits(text).len()
}
