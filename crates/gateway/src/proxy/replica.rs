//! A replica as the proxy sees it: its address, its idle connections, its requests in flight.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpool_client::Client;
use gpool_wire::ForwardToJob;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;

use crate::balance::Outlier;

/// The body of a request to a replica: in memory, so that it can be sent again, or as it arrives.
pub type Outgoing = Either<Full<Bytes>, Incoming>;
/// A connection to a replica.
pub type Connection = SendRequest<Outgoing>;

/// How long a replica may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Most idle connections to a replica.
const IDLE_MAX: usize = 256;

/// How the gateway reaches a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// By TCP: on the gateway's own node, or on another one if the replica listens there for other
    /// machines.
    Tcp(SocketAddr),
    /// Through the server, as `gpool forward`.
    Server,
}

/// A replica with a running job.
pub struct Replica {
    /// Its index in the group.
    pub index: u64,
    /// Its job.
    pub job: String,
    /// Its port.
    pub port: u16,
    /// Whether it has the newest revision.
    pub is_new: AtomicBool,
    /// Whether it answers its probe.
    pub is_ready: AtomicBool,
    /// Whether it has ever answered it.
    pub was_ready: AtomicBool,
    /// Whether it gets no new requests, since it is about to end.
    pub is_leaving: AtomicBool,
    /// Requests in flight.
    pub n_in_flight: AtomicU32,
    /// Whether it answers with errors only.
    pub outlier: Mutex<Outlier>,
    /// Wakes its probe.
    pub doubted: Notify,
    endpoint: Endpoint,
    idle: Mutex<Vec<Connection>>,
}

impl Replica {
    /// A replica that is not ready yet.
    #[must_use]
    pub fn new(index: u64, job: String, port: u16, endpoint: Endpoint, is_new: bool) -> Arc<Self> {
        Arc::new(Self {
            index,
            job,
            port,
            is_new: AtomicBool::new(is_new),
            is_ready: AtomicBool::new(false),
            was_ready: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            n_in_flight: AtomicU32::new(0),
            outlier: Mutex::default(),
            doubted: Notify::new(),
            endpoint,
            idle: Mutex::default(),
        })
    }

    /// Whether it gets new requests.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed) && !self.is_leaving.load(Ordering::Relaxed)
    }

    /// Lets the next probe decide whether it gets more requests, and makes that at once.
    pub fn doubt(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
        self.doubted.notify_one();
    }

    /// Takes an idle connection, or makes one. Returns whether it was idle.
    ///
    /// # Errors
    /// The replica accepts no connection.
    pub async fn connection(
        &self,
        client: &Client,
        may_be_idle: bool,
    ) -> Result<(Connection, bool), String> {
        let take = || self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(mut idle) = may_be_idle.then(take).flatten() {
            if !idle.is_closed() && idle.ready().await.is_ok() {
                return Ok((idle, true));
            }
        }
        match tokio::time::timeout(CONNECT, self.connect(client)).await {
            Ok(made) => made.map(|connection| (connection, false)),
            Err(_) => Err(format!("no connection within {} s", CONNECT.as_secs())),
        }
    }

    /// Makes a connection.
    async fn connect(&self, client: &Client) -> Result<Connection, String> {
        match self.endpoint {
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(|it| it.to_string())?;
                let _ = stream.set_nodelay(true);
                start(stream).await
            }
            Endpoint::Server => {
                let stream = forward(client.clone(), self.job.clone(), self.port).await?;
                stream.set_nonblocking(true).map_err(|it| it.to_string())?;
                start(UnixStream::from_std(stream).map_err(|it| it.to_string())?).await
            }
        }
    }

    /// Checks with gpool that a process of the job itself listens on the port: another program
    /// could have it.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn check_listener(&self, client: &Client) -> Result<(), String> {
        forward(client.clone(), self.job.clone(), self.port).await.map(drop)
    }

    /// Keeps a connection after its answer was read to the end.
    pub fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX && !connection.is_closed() {
            idle.push(connection);
        }
    }
}

/// Opens a stream to a port of a job. The client blocks, so this runs on another thread.
async fn forward(client: Client, job: String, port: u16) -> Result<StdUnixStream, String> {
    let to = ForwardToJob { port: Some(port), ..ForwardToJob::default() };
    let opened = tokio::task::spawn_blocking(move || client.forward(&job, &to)).await;
    match opened {
        Ok(Ok(stream)) if stream.early.is_empty() => Ok(stream.stream),
        Ok(Ok(_)) => Err("the replica speaks first, so it is no HTTP server".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

async fn start<S>(stream: S) -> Result<Connection, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|it| it.to_string())?;
    tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok(sender)
}
