//! The listener of the dashboard.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::Pages;
use gpool_api::connections::{Seat, Seated};
use gpool_identity::pool::RequestSource;
use gpool_identity::web::{Loopback, connected};

/// Most connections of all browsers together.
const CONNECTIONS_MAX: usize = 512;
/// How long a browser may take for the headers of a request.
const HEADERS: Duration = Duration::from_secs(10);

/// The answer to a browser above the limit.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n\
    content-type: text/plain\r\nconnection: close\r\n\r\n\
    Too many browsers are connected to this server. Try again in a few seconds.\n";

/// Answers without reading the request.
async fn refuse(mut stream: TcpStream) {
    // One attempt is enough: the browser may be gone.
    drop(tokio::time::timeout(Duration::from_secs(5), stream.write_all(FULL)).await);
    drop(stream.shutdown().await);
}

impl Pages {
    /// Serves the listener until the server ends.
    pub(crate) async fn serve(self: Arc<Self>, listener: Loopback) {
        let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut end = self.end.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = end.wait_for(|end| *end) => return,
            };
            match accepted {
                Ok((stream, from)) => {
                    let Ok(seat) = seats.clone().try_acquire_owned() else {
                        tokio::spawn(refuse(stream));
                        continue;
                    };
                    let pages = self.clone();
                    tokio::spawn(async move {
                        pages.connection(stream, from).await;
                        drop(seat);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection of a browser");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, from: SocketAddr) {
        // One user of the machine must not take the places of all others.
        let place = self.lookups.enter(RequestSource::of(from.ip())).await;
        let Ok(at) = stream.local_addr() else { return };
        let find = move || connected::user(from, at);
        let uid = tokio::task::spawn_blocking(find).await.ok().flatten();
        drop(place);
        let source = uid.map_or(RequestSource::of(from.ip()), RequestSource::Browsers);
        let Some(seat) = Seat::take(&self.open, source) else { return refuse(stream).await };
        let seat = Seated::new(seat);
        let mut end = self.end.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(seat.clone());
            let pages = self.clone();
            async move {
                Ok::<_, std::convert::Infallible>(pages.answer(request, (from.ip(), uid)).await)
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(served);
        tokio::select! {
            // The browser's errors are its own.
            _ = served.as_mut() => {}
            _ = end.wait_for(|end| *end) => served.as_mut().graceful_shutdown(),
        }
    }
}
