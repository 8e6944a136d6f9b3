//! The limits of all connections: their number for each user, and the time and memory of each.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use gpool_wire::{Problem, catalogue};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;

use super::classes::Classes;
use super::connection::{Connection, HttpStream};
use gpool_identity::pool::RequestSource;

/// Bytes of request headers after which the connection is closed. Smaller headers that are still
/// too large get an answer with a problem; see [`super::guard`].
const HEADERS_BUFFERED: usize = 64 * 1024;
/// The most connections of the browsers of one user on the loopback address, three quarters of all.
const BROWSERS_MAX: u32 = 384;
/// Time limit for a refused client to read the refusal.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// After the kernel could not give a connection (no file descriptors), how long until the next.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the headers of a request; and between two requests.
    pub headers: Duration,
    /// For the body of a request, or for the next part of a long one.
    pub body: Duration,
    /// For the client to read some of its answer.
    pub answer: Duration,
    /// Until the account of the user of a long request is looked up again.
    pub account: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(5),
            body: Duration::from_secs(30),
            answer: Duration::from_secs(60),
            account: Duration::from_secs(60),
        }
    }
}

/// What all connections share.
pub struct Connections {
    /// Connections that were closed without an answer, above a limit.
    pub closed: Counter,
    pub classes: Classes,
    patience: Patience,
    connections_max: u32,
    n_open: Mutex<HashMap<RequestSource, u32>>,
}

impl Connections {
    pub fn new(
        closed: Counter,
        classes: Classes,
        patience: Patience,
        connections_max: u32,
    ) -> Self {
        Self { closed, classes, patience, connections_max, n_open: Mutex::default() }
    }

    /// The refusal of a connection or stream above the limit of its user.
    pub fn too_many(&self) -> Problem {
        let what = format!("you have {} open connections, the maximum", self.connections_max);
        Problem::new(catalogue::TOO_MANY_CONNECTIONS, what)
    }

    /// Answers the requests of a connection.
    pub async fn answer<S>(
        &self,
        connection: Arc<Connection>,
        service: S,
        mut end: watch::Receiver<bool>,
    ) where
        S: Service<hyper::Request<Incoming>, Response = hyper::Response<Body>, Error = Infallible>,
        S::Future: Send,
    {
        let ends = HttpStream::new(connection.clone(), self.patience.answer);
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.patience.headers)
            .max_buf_size(HEADERS_BUFFERED)
            .serve_connection(TokioIo::new(ends), service)
            .with_upgrades();
        tokio::pin!(served);
        let result = tokio::select! {
            result = served.as_mut() => Some(result),
            _ = end.wait_for(|end| *end) => None,
        };
        let Some(result) = result else {
            served.as_mut().graceful_shutdown();
            return drop(served.await);
        };
        // Other errors are the peer's: it has gone, or speaks no HTTP.
        if result.is_err_and(|error| error.is_timeout()) && connection.has_input() {
            let what = "the headers of the request did not come in time";
            refuse(&connection, &Problem::new(catalogue::BODY_TIMEOUT, what)).await;
        }
    }
}

/// The counted seat of a connection, kept by the stream that the connection is upgraded to.
#[derive(Clone)]
pub struct Seated(#[expect(dead_code, reason = "it is held")] Arc<Seat>);

impl Seated {
    pub fn new(seat: Seat) -> Self {
        Self(Arc::new(seat))
    }
}

/// A connection that counts against a limit while it is there.
pub struct Seat {
    open: Arc<Connections>,
    by: RequestSource,
}

impl Seat {
    pub fn take(open: &Arc<Connections>, by: RequestSource) -> Option<Self> {
        let mut all_open = open.n_open.lock().unwrap_or_else(PoisonError::into_inner);
        let n_open = all_open.entry(by).or_default();
        let most = match by {
            RequestSource::Browsers(_) => BROWSERS_MAX,
            RequestSource::User(_) | RequestSource::Block(_) | RequestSource::Agent(_) => {
                open.connections_max
            }
        };
        if *n_open >= most {
            return None;
        }
        *n_open += 1;
        Some(Self { open: open.clone(), by })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all_open = self.open.n_open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n_open) = all_open.get_mut(&self.by) {
            *n_open -= 1;
            if *n_open == 0 {
                all_open.remove(&self.by);
            }
        }
    }
}

/// Sends a problem without reading the request.
pub async fn refuse(connection: &Connection, problem: &Problem) {
    let body = serde_json::to_string(problem).expect("problems are plain data");
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
    let later = if problem.status == 429 { "retry-after: 1\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\n{later}\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // One attempt is enough: the client may be gone.
    drop(tokio::time::timeout(LAST_WORDS, connection.write_all(answer.as_bytes())).await);
}
