//! The listener on the network: TLS, then the API for requests with a token, and the dashboard for
//! browsers.
//!
//! The decrypted bytes of a connection pass through a pair of sockets to the same code that serves
//! the Unix socket, with its time limits.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::http::header::{HOST, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use gpool_wire::join::AGENT_ROUTES;
use gpool_wire::{API_PREFIX, Problem, catalogue};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::{AsyncWriteExt as _, copy, sink, split};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ProtocolVersion;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use super::agent::{AgentCaller, AgentRoutes};
use super::entrance::{Entrance, RightsCheck};
use super::pages::Pages;
use gpool_api::asker::Asks;
use gpool_api::connection::Connection;
use gpool_api::connections::{ACCEPT_PAUSE, Connections, Seat, Seated};
use gpool_api::extract::ApiError;
use gpool_identity::pool::Rates;
use gpool_identity::pool::RequestSource;
use gpool_identity::tls::{Served, Tls, fingerprint};

/// From one source, 500 new connections may come at once, then one in this time.
const ARRIVAL: Duration = Duration::from_millis(10);
/// The most connections of all addresses together.
const CONNECTIONS_MAX: usize = 2048;
/// How long a client may take for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The kernel ends a connection after this time if its other end accepts nothing.
const UNREAD: Duration = Duration::from_secs(60);
/// How often the rights of a connection are checked.
const RECHECK: Duration = Duration::from_secs(5);
/// The routes that a caller without a token uses to get one.
const SIGN_IN: &str = "/login/device";
/// How long the last bytes of an answer may take at the end.
const LAST_BYTES: Duration = Duration::from_secs(2);

/// The listener's parts.
pub(crate) struct Network {
    pub tls: Arc<Tls>,
    pub entrance: Arc<Entrance>,
    pub router: Router,
    pub pages: Arc<Pages>,
    pub agents: AgentRoutes,
    pub open: Arc<Connections>,
    /// New connections by source: each costs a handshake.
    pub arrivals: Rates<RequestSource>,
}

/// One connection.
struct Caller {
    network: Arc<Network>,
    from: IpAddr,
    served: Served,
    seat: Seated,
    /// The fingerprint of its certificate; only agents, which use TLS 1.3, have one.
    certificate: Option<String>,
    /// The user of the request that is being answered.
    asks: Mutex<Option<Asks>>,
}

impl Network {
    /// The limit on new connections.
    pub fn arrivals() -> Rates<RequestSource> {
        Rates::every(ARRIVAL, ARRIVAL * 500)
    }

    /// Serves the listener until the server ends.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, mut end: watch::Receiver<bool>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                _ = end.wait_for(|end| *end) => break,
            };
            match accepted {
                Ok((stream, from)) => {
                    let served = self.clone().connection(stream, from.ip(), place, end.clone());
                    connections.spawn(served);
                }
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection of the network");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        while connections.join_next().await.is_some() {}
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        from: IpAddr,
        place: OwnedSemaphorePermit,
        end: watch::Receiver<bool>,
    ) {
        let from = from.to_canonical();
        let source = RequestSource::of(from);
        let may_come = self.arrivals.take(source, Instant::now());
        let seat = may_come.then(|| Seat::take(&self.open, source)).flatten();
        // An answer would cost a handshake.
        let Some(seat) = seat else {
            self.open.closed.inc();
            return;
        };
        let Ok(at) = stream.local_addr() else { return };
        let served = match self.tls.served(at.ip()) {
            Ok(served) => served,
            Err(error) => {
                return tracing::error!(error = format!("{error:#}"), "there is no certificate");
            }
        };
        watch_over(&stream);
        let acceptor = TlsAcceptor::from(served.config.clone());
        let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
        // Errors are the peer's: it does not trust the certificate, or speaks no TLS.
        let Ok(Ok(stream)) = shaken.await else { return };
        let Ok((inside, outside)) = UnixStream::pair() else { return };
        let session = stream.get_ref().1;
        let is_newest = session.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let chain = session.peer_certificates().filter(|_| is_newest);
        let certificate = chain.and_then(|chain| chain.first()).map(|it| fingerprint(it));
        let agent = certificate.as_deref().filter(|it| self.agents.admits(it));
        // Agents have places of their own: a cluster may have more of them than clients.
        let (seat, _place) = match agent.map(RequestSource::of_agent) {
            Some(agent) => {
                drop((seat, place));
                (Seat::take(&self.open, agent), None)
            }
            None => (Some(seat), Some(place)),
        };
        let Some(seat) = seat else { return };
        let caller = Arc::new(Caller {
            network: self.clone(),
            from,
            served,
            seat: Seated::new(seat),
            certificate,
            asks: Mutex::default(),
        });
        let asked = caller.clone();
        let service = service_fn(move |request| {
            let asked = asked.clone();
            async move { Ok::<_, std::convert::Infallible>(asked.answer(request).await) }
        });
        let answered = self.open.answer(Connection::new(inside), service, end.clone());
        tokio::select! {
            // After an upgrade the bytes go on, so its end alone counts.
            () = both(carry(stream, outside), answered, end) => {}
            () = caller.refused() => {}
        }
    }
}

/// Carries bytes both ways. Errors are the peer's.
async fn carry(stream: TlsStream<TcpStream>, mut inside: UnixStream) {
    let (mut from_client, mut to_client) = split(stream);
    let (mut from_server, mut to_server) = inside.split();
    let inward = async {
        drop(copy(&mut from_client, &mut to_server).await);
        drop(to_server.shutdown().await);
        // The server answers some requests without reading them; a reset of the connection would
        // take the answer from the client.
        drop(copy(&mut from_client, &mut sink()).await);
    };
    let outward = async {
        drop(copy(&mut from_server, &mut to_client).await);
        drop(to_client.shutdown().await);
    };
    tokio::pin!(inward, outward);
    tokio::select! {
        () = &mut inward => outward.await,
        () = &mut outward => drop(tokio::time::timeout(LAST_BYTES, inward).await),
    }
}

/// Carries bytes until both ends are closed; at the server's end, until the last answer is sent.
async fn both(
    carried: impl Future<Output = ()>,
    answered: impl Future<Output = ()>,
    mut end: watch::Receiver<bool>,
) {
    let ended = async {
        answered.await;
        // The sender lives as long as the server.
        drop(end.wait_for(|end| *end).await);
        tokio::time::sleep(LAST_BYTES).await;
    };
    tokio::select! {
        () = carried => {}
        () = ended => {}
    }
}

impl Caller {
    /// Completes when the token of a request that is being answered was revoked, has expired or
    /// gives fewer rights than before: a stream ends.
    async fn refused(&self) {
        let entrance = &self.network.entrance;
        let (mut revocations, mut check) =
            (entrance.revocations(), RightsCheck::new(entrance.clone()));
        loop {
            // In both cases it is checked again.
            drop(tokio::time::timeout(RECHECK, revocations.changed()).await);
            let asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(asks) = asks
                && !check.holds(&asks).await
            {
                return;
            }
        }
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        // With two, a proxy before this server could have looked at the other one.
        let host = host.filter(|_| hosts.next().is_none());
        // A target with another host: a proxy could look at that one.
        let host = host.filter(|host| request.uri().authority().is_none_or(|it| it == *host));
        if !host.is_some_and(|host| self.served.is_for(host)) {
            return (StatusCode::MISDIRECTED_REQUEST, "This server has another name.\n")
                .into_response();
        }
        if let Some(label) = host.and_then(|host| self.network.tls.notebook_label(host)) {
            let (label, from) = (label.to_owned(), (self.from, None));
            request.extensions_mut().insert(self.seat.clone());
            return self.network.pages.site(request.map(Body::new), &label, from).await;
        }
        let path = request.uri().path();
        let of_agents = path.strip_prefix(API_PREFIX).and_then(|it| it.strip_prefix(AGENT_ROUTES));
        if let Some(path) = of_agents.filter(|it| it.starts_with('/')).map(str::to_owned) {
            let (from, certificate) = (self.from, self.certificate.clone());
            let caller = AgentCaller { from, certificate, seat: self.seat.clone() };
            return self.network.agents.answer(request, &path, &caller).await;
        }
        let is_api = path.starts_with(API_PREFIX) || ["/metrics", "/openapi.json"].contains(&path);
        if !is_api {
            return self.network.pages.answer(request, (self.from, None)).await;
        }
        let entrance = &self.network.entrance;
        let place = self.network.open.classes.enter_lookup(RequestSource::of(self.from)).await;
        let asks = match path.strip_prefix(API_PREFIX).is_some_and(|it| it.starts_with(SIGN_IN)) {
            true => entrance.without_token(self.from),
            false => entrance.by_headers(request.headers(), self.from).await,
        };
        drop(place);
        let asks = match asks {
            Ok(asks) => asks,
            Err(problem) => return not_signed_in(problem),
        };
        self.answers(Some(asks.clone()));
        request.extensions_mut().insert(asks);
        request.extensions_mut().insert(self.seat.clone());
        let Ok(response) = self.network.router.clone().oneshot(request.map(Body::new)).await;
        // A stream has no length, and bytes go on after an upgrade.
        let is_short = response.body().size_hint().exact().is_some();
        if is_short && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            self.answers(None);
        }
        response
    }

    /// Notes the user of the request that is being answered.
    fn answers(&self, asks: Option<Asks>) {
        *self.asks.lock().unwrap_or_else(PoisonError::into_inner) = asks;
    }
}

fn not_signed_in(problem: Problem) -> Response<Body> {
    let is_unknown = problem.code == catalogue::NOT_SIGNED_IN.to_string();
    let mut response = ApiError::from(problem).into_response();
    if is_unknown {
        let bearer = HeaderValue::from_static("Bearer realm=\"gpool\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    }
    response
}

/// Makes the kernel notice a peer that is gone or reads nothing.
fn watch_over(stream: &TcpStream) {
    use rustix::net::sockopt;
    let millis = u32::try_from(UNREAD.as_millis()).unwrap_or(u32::MAX);
    // Without these a dead connection only takes its place for longer.
    let _ = sockopt::set_tcp_user_timeout(stream, millis);
    let _ = sockopt::set_tcp_keepidle(stream, UNREAD);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = stream.set_nodelay(true);
}
