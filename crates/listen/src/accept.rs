//! The listener of the Unix socket: identifies the user of each connection.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceBuilder;
use tower::util::MapRequestLayer;

use super::agent::AgentRoutes;
use super::entrance::Entrance;
use super::network::Network;
use super::pages::Pages;
use gpool_api::api::Api;
use gpool_api::asker::{Accounts, Asker, Asks, Identify, Peer};
use gpool_api::changes::Changes;
use gpool_api::classes::Classes;
use gpool_api::connection::Connection;
use gpool_api::connections::{ACCEPT_PAUSE, Connections, Patience, Seat, Seated, refuse};
use gpool_api::evictions;
use gpool_api::router::router;
use gpool_identity::pool::{Rates, RequestSource};
use gpool_identity::tls::Tls;
use gpool_identity::web::{Loopback, Sessions, Web};
use gpool_server::account::FindAccount;
use gpool_server::feed::Feed;
use gpool_server::handle::CoreHandle;
use gpool_server::listen::Others;
use gpool_server::listeners::Opening;
use gpool_server::run::{Serving, Shutdown};

/// The most connections that are refused at once.
const REFUSALS_MAX: usize = 64;
/// The limit on new connections of one user on the Unix socket: a number at once, then one in each
/// of these times. More of them wait.
const ARRIVALS_AT_ONCE: u32 = 500;
const ARRIVAL: Duration = Duration::from_millis(2);
/// How long requests that are being answered are waited for at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Serves a listener until `shutdown` completes; then ends streams, gives running requests a
/// moment, and returns.
///
/// The other listeners share the identities and the API.
#[must_use]
pub fn serve(
    listener: UnixListener,
    others: Others,
    handle: CoreHandle,
    find_account: FindAccount,
    shutdown: Shutdown,
) -> Serving {
    let identify = Arc::new(Accounts::new(find_account, handle.info().uid));
    Box::pin(serve_as(listener, others, handle, identify, Patience::default(), shutdown))
}

pub(crate) async fn serve_as(
    listener: UnixListener,
    others: Others,
    handle: CoreHandle,
    identify: Arc<dyn Identify>,
    patience: Patience,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (ending, end) = watch::channel(false);
    let itself = Peer { uid: handle.info().uid, gid: None, pid: None };
    let user = identify.find(itself).caller.owner.user;
    let connections_max = handle.limits().connections;
    let shared = handle.shared.clone();
    let classes = Classes::default();
    let changes = Changes::new(handle.limits().changes);
    let charged = evictions::charge(handle.clone(), changes.clone(), end.clone());
    let api = Api::new(handle.clone(), user, patience, classes.clone(), end.clone());
    let closed = api.closed_connections();
    let open = Arc::new(Connections::new(closed, classes, patience, connections_max));
    let server = Arc::new(Server {
        identify,
        router: router(api.clone(), changes),
        arrivals: Rates::every(ARRIVAL, ARRIVAL * ARRIVALS_AT_ONCE),
        refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
        open,
    });
    let mut connections = JoinSet::new();
    connections.spawn(charged);
    let (access, find_user) = (shared.identities.access.clone(), shared.info.find_user);
    let sign_ins = shared.identities.sign_ins.clone();
    let identify = server.identify.clone();
    let entrance = Arc::new(Entrance::new(access, sign_ins, identify, find_user, patience.account));
    let beside = ListenerParts {
        api,
        server: server.clone(),
        handle: handle.clone(),
        entrance,
        sessions: shared.identities.sessions.clone(),
        feed: shared.feed.clone(),
        end,
    };
    if let Some(opening) = others.web {
        connections.spawn(beside.clone().dashboard(opening));
    }
    if let Some(opening) = others.network {
        connections.spawn(beside.clone().network(opening));
    }
    let end = beside.end;
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => server.take(stream, &mut connections, &end),
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    ending.send_replace(true);
    let rest = async { while connections.join_next().await.is_some() {} };
    // A client that does not read its answer does not delay the end.
    drop(tokio::time::timeout(LAST_ANSWERS, rest).await);
}

/// The parts of the listeners beside the Unix socket.
#[derive(Clone)]
struct ListenerParts {
    api: Api,
    server: Arc<Server>,
    handle: CoreHandle,
    entrance: Arc<Entrance>,
    sessions: Arc<Sessions>,
    feed: Arc<Feed>,
    end: watch::Receiver<bool>,
}

impl ListenerParts {
    fn pages(&self, web: Arc<Web>, is_remote: bool) -> Arc<Pages> {
        let Self { server, api, entrance, feed, end, .. } = self.clone();
        let (identify, router) = (server.identify.clone(), server.router.clone());
        let parts = (router, api, server.open.clone());
        Pages::new((web, is_remote), entrance, identify, parts, feed, end)
    }

    async fn dashboard(self, opening: Opening<(Arc<Web>, Loopback)>) {
        if let Some((web, listener)) = self.opened(opening).await {
            self.pages(web, false).serve(listener).await;
        }
    }

    async fn network(self, opening: Opening<(TcpListener, Arc<Tls>)>) {
        let Some((listener, tls)) = self.opened(opening).await else { return };
        let Ok(at) = listener.local_addr() else { return };
        let pages = self.pages(Arc::new(Web::new(at, self.sessions.clone())), true);
        let Self { server, entrance, end, handle, .. } = self;
        let router = server.router.clone();
        let arrivals = Network::arrivals();
        let open = server.open.clone();
        let (of_agents, ending) = (entrance.clone(), end.clone());
        let agents = AgentRoutes {
            handle,
            tls: tls.clone(),
            entrance: of_agents,
            identify: server.identify.clone(),
            router: router.clone(),
            open: open.clone(),
            end: ending,
        };
        let network = Arc::new(Network { tls, entrance, router, pages, agents, open, arrivals });
        network.serve(listener, end).await;
    }

    /// Waits for a listener; `None` if the server ends before.
    async fn opened<T>(&self, opening: Opening<T>) -> Option<T> {
        let mut end = self.end.clone();
        tokio::select! {
            opened = opening => Some(opened),
            _ = end.wait_for(|end| *end) => None,
        }
    }
}

/// A new connection on the Unix socket.
enum Arrival {
    Seated(Arrived),
    /// Above the limit of its user.
    TooMany(UnixStream, OwnedSemaphorePermit),
    Closed,
}

/// A connection with its seat.
struct Arrived {
    stream: UnixStream,
    peer: Peer,
    seat: Seat,
}

/// The listener of the Unix socket.
struct Server {
    identify: Arc<dyn Identify>,
    router: Router,
    /// New connections on the Unix socket.
    arrivals: Rates<RequestSource>,
    /// Places for refusals of connections. Above them, connections are closed without an answer.
    refusals: Arc<Semaphore>,
    open: Arc<Connections>,
}

impl Server {
    /// Finds the user of a new connection, and takes a seat for it.
    fn arrival(self: &Arc<Self>, stream: UnixStream) -> Arrival {
        let Ok(peer) = stream.peer_cred() else { return Arrival::Closed };
        if let Some(seat) = Seat::take(&self.open, RequestSource::User(peer.uid())) {
            let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
            let peer = Peer { uid: peer.uid(), gid: Some(peer.gid()), pid };
            return Arrival::Seated(Arrived { stream, peer, seat });
        }
        match self.refusals.clone().try_acquire_owned() {
            Ok(place) => Arrival::TooMany(stream, place),
            Err(_) => {
                self.open.closed.inc();
                Arrival::Closed
            }
        }
    }

    /// Begins to answer or to refuse a new connection. Connections may come faster than tasks end,
    /// so the number of tasks for refusals is limited.
    fn take(
        self: &Arc<Self>,
        stream: UnixStream,
        connections: &mut JoinSet<()>,
        end: &watch::Receiver<bool>,
    ) {
        match self.arrival(stream) {
            Arrival::Seated(arrived) => {
                connections.spawn(self.clone().connection(arrived, end.clone()));
            }
            Arrival::TooMany(stream, place) => {
                connections.spawn(self.clone().turn_away(stream, place));
            }
            Arrival::Closed => {}
        }
    }

    /// Refuses a connection above the limit of its user.
    async fn turn_away(self: Arc<Self>, stream: UnixStream, place: OwnedSemaphorePermit) {
        refuse(&Connection::new(stream), &self.open.too_many()).await;
        drop(place);
    }

    async fn connection(self: Arc<Self>, arrived: Arrived, end: watch::Receiver<bool>) {
        let Arrived { stream, peer, seat } = arrived;
        let (connection, seat) = (Connection::new(stream), Seated::new(seat));
        let source = RequestSource::User(peer.uid);
        let wait = self.arrivals.turn(source, Instant::now());
        // The timer rounds up to a millisecond, which each command would wait.
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let Some(asker) = self.find(peer).await else { return };
        let asks = Asks(Arc::new(asker));
        let with_asker = MapRequestLayer::new(move |request: hyper::Request<_>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(asks.clone());
            request.extensions_mut().insert(seat.clone());
            request
        });
        let service = ServiceBuilder::new().layer(with_asker).service(self.router.clone());
        self.open.answer(connection, TowerToHyperService::new(service), end).await;
    }

    /// Finds the user of a connection; `None` at shutdown. The system's name service may take its
    /// time.
    async fn find(&self, peer: Peer) -> Option<Asker> {
        if let Some(asker) = self.identify.recent(peer) {
            return Some(asker);
        }
        let _place = self.open.classes.enter_lookup(RequestSource::User(peer.uid)).await;
        let identify = self.identify.clone();
        tokio::task::spawn_blocking(move || identify.find(peer)).await.ok()
    }
}
