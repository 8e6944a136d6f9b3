//! The listener: who connects, how many connections each user may have, and limits on what a
//! connection may take in time and memory.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use gpool_wire::{Problem, catalogue};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceBuilder;
use tower::util::MapRequestLayer;

use super::asker::{Accounts, Asks, FindAccount, Identify, Peer};
use super::{Api, router};
use crate::handle::CoreHandle;

/// Connections that one user may have at once.
const CONNECTIONS_MAX: usize = 256;
/// Bytes of headers that are taken, and of whatever else is buffered of a connection.
const HEADERS_MAX: usize = 16 * 1024;
/// How long the headers of a request may take.
const HEADER_PATIENCE: Duration = Duration::from_secs(5);
/// How long requests that are being answered are waited for at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// After the kernel could not give a connection (no file descriptors), how long until the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers on a listener until `shutdown` is done; then ends streams, gives what is being answered
/// a moment, and returns.
pub async fn serve(
    listener: UnixListener,
    handle: CoreHandle,
    find_account: FindAccount,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (accounts, server_uid) = (Accounts::new(find_account), handle.info().uid);
    let identify = Arc::new(move |peer| accounts.asker(peer, server_uid));
    serve_as(listener, handle, identify, shutdown).await;
}

pub(crate) async fn serve_as(
    listener: UnixListener,
    handle: CoreHandle,
    identify: Identify,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (ending, end) = watch::channel(false);
    let itself = Peer { uid: handle.info().uid, gid: 0, pid: None };
    let user = identify(itself).caller.owner.user;
    let server = Arc::new(Server {
        identify,
        router: router(Api::new(handle, user, end.clone())),
        n_by_uid: Mutex::default(),
    });
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(server.clone().connection(stream, end.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    ending.send_replace(true);
    let rest = async { while connections.join_next().await.is_some() {} };
    // Whoever does not read its answer is not waited for.
    drop(tokio::time::timeout(LAST_ANSWERS, rest).await);
}

struct Server {
    identify: Identify,
    router: Router,
    n_by_uid: Mutex<HashMap<u32, usize>>,
}

impl Server {
    async fn connection(self: Arc<Self>, stream: UnixStream, end: watch::Receiver<bool>) {
        let Ok(peer) = stream.peer_cred() else { return };
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        let peer = Peer { uid: peer.uid(), gid: peer.gid(), pid };
        let Some(_seat) = Seat::take(&self, peer.uid) else {
            return refuse(stream).await;
        };
        // The system's name service may take its time.
        let identify = self.identify.clone();
        let found = move || identify(peer);
        let Ok(asker) = tokio::task::spawn_blocking(found).await else { return };
        self.answer(stream, Asks(Arc::new(asker)), end).await;
    }

    async fn answer(&self, stream: UnixStream, asks: Asks, mut end: watch::Receiver<bool>) {
        let with_asker = MapRequestLayer::new(move |request: hyper::Request<_>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(asks.clone());
            request
        });
        let service = ServiceBuilder::new().layer(with_asker).service(self.router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_PATIENCE)
            .max_buf_size(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::pin!(connection);
        // Errors here are the peer's: it has gone, or speaks no HTTP.
        tokio::select! {
            result = connection.as_mut() => return drop(result),
            _ = end.wait_for(|end| *end) => connection.as_mut().graceful_shutdown(),
        }
        drop(connection.await);
    }
}

/// A connection that counts against its user's limit while it is there.
struct Seat {
    server: Arc<Server>,
    uid: u32,
}

impl Seat {
    fn take(server: &Arc<Server>, uid: u32) -> Option<Self> {
        let mut n_by_uid = server.n_by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        let n_open = n_by_uid.entry(uid).or_default();
        if *n_open >= CONNECTIONS_MAX {
            return None;
        }
        *n_open += 1;
        Some(Self { server: server.clone(), uid })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut n_by_uid = self.server.n_by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n_open) = n_by_uid.get_mut(&self.uid) {
            *n_open -= 1;
            if *n_open == 0 {
                n_by_uid.remove(&self.uid);
            }
        }
    }
}

/// Says that a user has too many connections, without reading what they ask.
async fn refuse(mut stream: UnixStream) {
    let what = format!("you have {CONNECTIONS_MAX} connections open, which is the most");
    let problem = Problem::new(catalogue::TOO_MANY_CONNECTIONS, what);
    let body = serde_json::to_string(&problem).expect("problems are plain data");
    let answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // Nobody is owed more than the attempt.
    drop(tokio::time::timeout(HEADER_PATIENCE, stream.write_all(answer.as_bytes())).await);
}
