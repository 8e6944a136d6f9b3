//! Probes: a replica gets requests once it answers.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpool_client::Client;
use http_body_util::{Either, Full};
use hyper::Request;
use hyper::header::{HOST, HeaderValue};

use super::replica::Replica;
use super::table::Table;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between the probes of a replica that is not ready.
const OFTEN: Duration = Duration::from_millis(100);
/// The pause between those of a ready one.
const SELDOM: Duration = Duration::from_secs(1);
/// Failed probes in a row after which a ready replica gets no more requests.
const FAILURES: u32 = 3;

/// Starts a probe for each replica of the table, until this task is dropped.
pub async fn run(table: Arc<Table>, client: Client, path: Option<String>) {
    let watched: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    loop {
        for replica in table.replicas() {
            let key = format!("{}#{}", replica.job, replica.index);
            let is_new = watched.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
            if !is_new {
                continue;
            }
            let (table, client, path) = (table.clone(), client.clone(), path.clone());
            let watched = watched.clone();
            tokio::spawn(async move {
                watch(&table, &client, &replica, path.as_deref()).await;
                watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            });
        }
        tokio::time::sleep(OFTEN).await;
    }
}

/// Probes a replica as long as the table has it.
async fn watch(table: &Arc<Table>, client: &Client, replica: &Arc<Replica>, path: Option<&str>) {
    let (mut n_failed, mut is_own) = (0, false);
    while table.replicas().iter().any(|it| Arc::ptr_eq(it, replica)) {
        let answered = tokio::time::timeout(PATIENCE, probe(client, replica, path)).await;
        let mut answers = matches!(answered, Ok(Ok(())));
        if answers && !is_own {
            is_own = replica.check_listener(client).await.is_ok();
            answers = is_own;
        }
        if answers {
            n_failed = 0;
            replica.was_ready.store(true, Ordering::Relaxed);
            if !replica.is_ready.swap(true, Ordering::Relaxed) {
                table.serve_held();
            }
        } else {
            n_failed += 1;
            if n_failed >= FAILURES {
                replica.is_ready.store(false, Ordering::Relaxed);
            }
        }
        let is_ready = replica.is_ready.load(Ordering::Relaxed) && n_failed == 0;
        let pause = if is_ready { SELDOM } else { OFTEN };
        let _ = tokio::time::timeout(pause, replica.doubted.notified()).await;
    }
}

/// Asks once.
async fn probe(client: &Client, replica: &Replica, path: Option<&str>) -> Result<(), String> {
    // A connection of its own: those of requests may be busy.
    let (mut connection, _) = replica.connection(client, false).await?;
    let Some(path) = path else { return Ok(()) };
    let mut request = Request::new(Either::Left(Full::default()));
    *request.uri_mut() = path.parse().map_err(|_| format!("{path:?} is no path"))?;
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    let answer = connection.send_request(request).await.map_err(|error| error.to_string())?;
    match answer.status().is_success() {
        true => Ok(()),
        false => Err(format!("{path} answers {}", answer.status().as_u16())),
    }
}
