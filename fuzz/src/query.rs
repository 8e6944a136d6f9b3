//! The parts of a request outside its body: paths, queries, headers; and the user's resource limits
//! from the kernel.

use axum::http::{HeaderName, HeaderValue, Uri};
use gpool_api::fuzzing;

use crate::input::{choose, is_problem, text};

/// The headers that the server reads.
const HEADERS: [&str; 4] = ["idempotency-key", "last-event-id", "if-match", "content-type"];

/// Runs the checks.
pub fn check(input: &[u8]) {
    let Some((parser, rest)) = choose(input, 6) else { return };
    match parser {
        0 => list(rest),
        1 => {
            if let Some(Err(problem)) = uri(rest).map(|uri| fuzzing::logs(&uri)) {
                is_problem(&problem);
            }
        }
        2 => {
            if let Some(Err(problem)) = uri(rest).map(|uri| fuzzing::dry_run(&uri)) {
                is_problem(&problem);
            }
        }
        3 => id(rest),
        4 => header(rest),
        _ => drop(text(rest).map(fuzzing::limits)),
    }
}

/// A URI with this query, if the HTTP library accepts it.
fn uri(query: &[u8]) -> Option<Uri> {
    let mut address = b"/api/v1/jobs?".to_vec();
    address.extend_from_slice(query);
    Uri::try_from(address).ok()
}

/// The server accepts only cursors that it also gives out.
fn list(query: &[u8]) {
    match uri(query).map(|uri| fuzzing::list(&uri)) {
        None => {}
        Some(Ok(cursor)) => {
            let again = uri(format!("cursor={cursor}").as_bytes()).expect("plain characters");
            if !cursor.is_empty() {
                assert_eq!(fuzzing::list(&again), Ok(cursor));
            }
        }
        Some(Err(problem)) => is_problem(&problem),
    }
}

fn id(path: &[u8]) {
    let Some(path) = text(path) else { return };
    match fuzzing::id(path) {
        Ok(id) => assert_eq!(fuzzing::id(&id), Ok(id)),
        Err(problem) => is_problem(&problem),
    }
}

fn header(rest: &[u8]) {
    let Some((which, value)) = choose(rest, 4) else { return };
    let name = HeaderName::from_static(HEADERS[usize::from(which)]);
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    if let Err(problem) = fuzzing::header(name, &value) {
        is_problem(&problem);
    }
}
