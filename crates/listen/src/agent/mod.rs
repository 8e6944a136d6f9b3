//! The routes of agents on other machines, on the listener of the network. An agent proves itself
//! by its certificate, and reaches nothing but its own node.

pub mod messages;
mod stored;

use std::net::IpAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gpool_api::asker::{Asks, Identify, Peer};
use gpool_api::connection::Connection as HttpConnection;
use gpool_api::connections::{Connections, Seated};
use gpool_api::extract::{ApiError, pairs};
use gpool_api::way::{Origin, Way};
use gpool_identity::audit::AuditKind;
use gpool_identity::pool::RequestSource;
use gpool_identity::tls::Tls;
use gpool_link::Connection;
use gpool_model::{NodeName, Refusal};
use gpool_protocol::{Decoder, QuestionId, ToServer};
use gpool_server::agents::AgentPeer;
use gpool_server::clock::now;
use gpool_server::fault::internal;
use gpool_server::handle::CoreHandle;
use gpool_wire::join::{AGENT_UPGRADE, CertificateRequest, IssuedCertificate};
use gpool_wire::{AuditEntry, Document, Problem, Scope, Time, catalogue};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::entrance::Entrance;

/// Most bytes of a request for a certificate, and the time for them.
const REQUEST_MAX: usize = 16 * 1024;
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);

/// Most bytes of a long answer, and the time for them: lists of many devices or jobs.
const ANSWER_MAX: usize = 16 << 20;
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// Serves the agents of other machines.
pub(crate) struct AgentRoutes {
    pub handle: CoreHandle,
    pub tls: Arc<Tls>,
    pub entrance: Arc<Entrance>,
    pub identify: Arc<dyn Identify>,
    pub router: Router,
    pub open: Arc<Connections>,
    /// Becomes true when the server stops.
    pub end: watch::Receiver<bool>,
}

/// The connection of a request.
pub(crate) struct AgentCaller {
    pub from: IpAddr,
    /// The fingerprint of its certificate; a machine that joins has none yet.
    pub certificate: Option<String>,
    pub seat: Seated,
}

impl AgentRoutes {
    /// Answers a request; `path` is without the prefix of these routes.
    pub async fn answer(
        &self,
        mut request: Request<Incoming>,
        path: &str,
        caller: &AgentCaller,
    ) -> Response<Body> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let answer = match (request.method(), parts.as_slice()) {
            (&Method::POST, ["certificate"]) => self.certificate(request, caller).await,
            (&Method::POST, ["answers"]) => self.long_answer(request, caller).await,
            (&Method::GET, ["messages"]) => self.messages(&mut request, caller),
            (&Method::GET, ["streams", question]) => {
                self.stream(&mut request, caller, question.parse().ok().map(QuestionId))
            }
            (&Method::GET, ["api"]) => self.api(&mut request, caller).await,
            (&Method::GET, ["node"]) => self
                .node(caller)
                .map(|_| StatusCode::NO_CONTENT.into_response())
                .map_err(Into::into),
            (&Method::GET, ["blobs", blob]) => self.blob(caller, blob).await,
            (&Method::GET, ["secrets", job, name]) => self.secret(caller, job, name).await,
            (&Method::POST, ["results", part]) => {
                let part = (*part).to_owned();
                self.results(request, caller, &part).await
            }
            _ => Err(no_such_route().into()),
        };
        answer.unwrap_or_else(|error| error.into_response())
    }

    /// Whether a certificate is that of an agent, by its fingerprint.
    pub fn admits(&self, certificate: &str) -> bool {
        self.handle.shared.identities.nodes.node_of(certificate).is_some()
    }

    /// The node of the caller's certificate.
    fn node(&self, caller: &AgentCaller) -> Result<NodeName, Problem> {
        let nodes = &self.handle.shared.identities.nodes;
        let node = caller.certificate.as_deref().and_then(|it| nodes.node_of(it));
        node.ok_or_else(|| {
            let what = "this machine is no node of the server";
            Problem::new(catalogue::NOT_SIGNED_IN, what)
                .because("the node was removed, or joined again on another machine")
                .try_this("gpool nodes add NAME   (on the server; prints the command to join)")
        })
    }

    /// Completes when the certificate of a caller is refused.
    fn dismissed(&self, caller: &AgentCaller) -> impl Future<Output = ()> + Send + 'static {
        let nodes = self.handle.shared.identities.nodes.clone();
        let (mut changes, certificate) = (nodes.changes(), caller.certificate.clone());
        async move {
            while certificate.as_deref().is_some_and(|it| nodes.node_of(it).is_some()) {
                // The sender lives as long as the server.
                drop(changes.changed().await);
            }
        }
    }

    fn agent(&self, caller: &AgentCaller) -> Result<Arc<AgentPeer>, Problem> {
        let node = self.node(caller)?;
        self.handle.agent(&node).ok_or_else(no_such_route)
    }

    /// Admits a machine with its token, or renews the certificate of an agent.
    async fn certificate(
        &self,
        request: Request<Incoming>,
        caller: &AgentCaller,
    ) -> Result<Response<Body>, ApiError> {
        let body = body_of(request, REQUEST_MAX, REQUEST_PATIENCE).await?;
        let request: CertificateRequest =
            serde_json::from_slice(&body).map_err(|error| bad(&error.to_string()))?;
        let key = BASE64_STANDARD.decode(&request.public_key);
        let key = key.map_err(|error| bad(&error.to_string()))?;
        let (nodes, tls) = (self.handle.shared.identities.nodes.clone(), self.tls.clone());
        let node = match &request.token {
            Some(token) => {
                self.entrance.may_sign_in(RequestSource::of(caller.from))?;
                nodes.invited(token, now()).ok_or_else(bad_token)?
            }
            None => self.node(caller)?,
        };
        let is_new = request.token.is_some();
        let (name, present) = (node.clone(), caller.certificate.clone().unwrap_or_default());
        let issued = tokio::task::spawn_blocking(move || -> Result<_, ApiError> {
            let issued = tls.issue_for_agent(&name, &key);
            let issued = issued.map_err(|error| bad(&format!("{error:#}")))?;
            let next = issued.fingerprint.clone();
            let stored = match &request.token {
                Some(token) => nodes.admit(token, next, now()),
                None => nodes.renew(&name, &present, next),
            };
            match stored {
                Ok(true) => Ok(issued),
                // Another request was faster.
                Ok(false) => Err(bad_token().into()),
                Err(error) => Err(Refusal::StorageFull { why: error.to_string() }.into()),
            }
        });
        let issued = issued.await.map_err(internal)??;
        if is_new {
            self.handle.admit_agent(&node);
            self.write_audit(&node, caller.from).await;
        }
        let certificate = BASE64_STANDARD.encode(&issued.certificate);
        let valid_s = u32::try_from(issued.valid.as_secs()).unwrap_or(u32::MAX);
        let answer = IssuedCertificate { node: node.to_string(), certificate, valid_s };
        Ok(Json(Document::new(answer)).into_response())
    }

    /// Writes the audit entry of a machine that joined.
    async fn write_audit(&self, node: &NodeName, from: IpAddr) {
        tracing::info!(target: "audit", %node, %from, "a node joined");
        let audit = self.handle.shared.identities.audit.clone();
        let (nobody, action) = ("nobody".to_owned(), "join as a node".to_owned());
        let entry = AuditEntry {
            objects: vec![format!("nodes/{node}")],
            ..AuditEntry::new(Time(now()), nobody, from.to_string(), action)
        };
        let written = tokio::task::spawn_blocking(move || audit.add(AuditKind::Admin, entry)).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, "can't write the audit log");
        }
    }

    /// Takes an answer that would delay other messages.
    async fn long_answer(
        &self,
        request: Request<Incoming>,
        caller: &AgentCaller,
    ) -> Result<Response<Body>, ApiError> {
        let peer = self.agent(caller)?;
        let body = body_of(request, ANSWER_MAX, ANSWER_PATIENCE).await?;
        let mut decoder = Decoder::default();
        decoder.push(&body);
        match decoder.next_message() {
            Ok(Some(ToServer::Answer { id, answer })) => peer.take_answer(id, answer),
            Ok(_) => return Err(bad("it is no answer").into()),
            Err(error) => return Err(bad(&error.to_string()).into()),
        }
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// Carries the messages of an agent.
    fn messages(
        &self,
        request: &mut Request<Incoming>,
        caller: &AgentCaller,
    ) -> Result<Response<Body>, ApiError> {
        let peer = self.agent(caller)?;
        let upgrade = upgrade_of(request)?;
        let (mut end, seat) = (self.end.clone(), caller.seat.clone());
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let connection = peer.accept();
            let (node, stream) = (peer.node(), TokioIo::new(upgraded));
            tracing::info!(%node, "the agent is connected");
            tokio::select! {
                why = messages::carry(stream, &connection) => {
                    tracing::info!(%node, %why, "the agent's connection ended");
                }
                _ = end.wait_for(|end| *end) => {}
            }
            drop(seat);
        });
        Ok(switching())
    }

    /// Hands the agent's stream to the caller of a question.
    fn stream(
        &self,
        request: &mut Request<Incoming>,
        caller: &AgentCaller,
        question: Option<QuestionId>,
    ) -> Result<Response<Body>, ApiError> {
        let (peer, question) = (self.agent(caller)?, question.ok_or_else(no_such_route)?);
        let upgrade = upgrade_of(request)?;
        let (mut end, seat) = (self.end.clone(), caller.seat.clone());
        let dismissed = self.dismissed(caller);
        let (inside, outside) = StdUnixStream::pair().map_err(internal)?;
        outside.set_nonblocking(true).map_err(internal)?;
        let mut outside = UnixStream::from_std(outside).map_err(internal)?;
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            peer.take_stream(question, Connection { stream: inside, early: Vec::new() });
            let mut upgraded = TokioIo::new(upgraded);
            tokio::select! {
                // However it ends, both connections are closed with it.
                () = carry(&mut upgraded, &mut outside) => {}
                _ = end.wait_for(|end| *end) => {}
                () = dismissed => {}
            }
            drop(seat);
        });
        Ok(switching())
    }

    /// Answers the requests of a user in a job on the agent's node. No caller is an admin there.
    async fn api(
        &self,
        request: &mut Request<Incoming>,
        caller: &AgentCaller,
    ) -> Result<Response<Body>, ApiError> {
        let node = self.node(caller)?;
        let user = pairs(request.uri())?.into_iter().find(|(name, _)| name == "user");
        let user = user.map(|(_, value)| value).unwrap_or_default();
        let (find_user, identify) = (self.handle.info().find_user, self.identify.clone());
        let name = user.clone();
        // The system's name service may take its time.
        let found = tokio::task::spawn_blocking(move || {
            let (uid, _) = find_user(&name)?;
            Some(identify.find(Peer { uid, gid: None, pid: None }))
        });
        let asker = found.await.map_err(internal)?;
        let uid = asker.as_ref().map(|asker| asker.caller.owner.uid);
        let name = node.clone();
        let has_job = move |view: &gpool_server::View<'_>| {
            let is_here = |it: &gpool_model::Allocation| it.node == name;
            let mut jobs = view.world.holding().filter(|row| Some(row.spec.owner.uid) == uid);
            jobs.any(|row| row.job.phase.allocations().iter().any(is_here))
        };
        let asker = asker.filter(|_| uid.is_some());
        let (Some(asker), true) = (asker, self.handle.query(has_job).await?) else {
            let what = format!("user {user} has no job on node {node}");
            return Err(Problem::new(catalogue::NOT_PERMITTED, what).into());
        };
        let way = Way {
            origin: Origin::Network(caller.from),
            scope: Scope::User,
            token: None,
            network_user: None,
            is_mapped: true,
        };
        let (asks, seat) = (Asks(Arc::new(asker.by(way))), caller.seat.clone());
        let (router, kept) = (self.router.clone(), seat.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(asks.clone());
            request.extensions_mut().insert(kept.clone());
            router.clone().oneshot(request.map(Body::new))
        });
        let upgrade = upgrade_of(request)?;
        let (inside, mut outside) = UnixStream::pair().map_err(internal)?;
        let (open, end, dismissed) = (self.open.clone(), self.end.clone(), self.dismissed(caller));
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let mut upgraded = TokioIo::new(upgraded);
            let carried = carry(&mut upgraded, &mut outside);
            let answered = open.answer(HttpConnection::new(inside), service, end);
            tokio::select! {
                // The bytes go on after an upgrade, so their end alone counts.
                _ = async { tokio::join!(carried, answered) } => {}
                () = dismissed => {}
            }
            drop(seat);
        });
        Ok(switching())
    }
}

/// The body of a request.
async fn body_of(
    request: Request<Incoming>,
    most: usize,
    patience: Duration,
) -> Result<Bytes, Refusal> {
    let body = Limited::new(request.into_body(), most).collect();
    let body = tokio::time::timeout(patience, body).await;
    let body = body.map_err(|_| bad("it did not come in time"))?;
    Ok(body.map_err(|error| bad(&error.to_string()))?.to_bytes())
}

fn bad(why: &str) -> Refusal {
    Refusal::Invalid { field: "body".to_owned(), why: why.to_owned() }
}

fn bad_token() -> Problem {
    Problem::new(catalogue::NOT_SIGNED_IN, "the join token is not valid")
        .because("it was used, has expired, or a newer token of its node took its place")
        .try_this("gpool nodes add NAME   (on the server; prints a new one)")
}

fn no_such_route() -> Problem {
    Problem::new(catalogue::NO_SUCH_ROUTE, "there is no such route for agents")
}

fn upgrade_of(request: &mut Request<Incoming>) -> Result<OnUpgrade, ApiError> {
    let asked = request.headers().get(UPGRADE);
    if asked.is_none_or(|it| !it.as_bytes().eq_ignore_ascii_case(AGENT_UPGRADE.as_bytes())) {
        let why = format!("the request needs the header Upgrade: {AGENT_UPGRADE}");
        return Err(Refusal::Invalid { field: "Upgrade".to_owned(), why }.into());
    }
    Ok(hyper::upgrade::on(request))
}

fn switching() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(AGENT_UPGRADE));
    response
}

/// Carries bytes between two connections until both have ended. An error in one direction does not
/// end the other: a program may end before it has read its input, and its output still counts.
async fn carry(one: impl AsyncRead + AsyncWrite, other: impl AsyncRead + AsyncWrite) {
    let ((mut from_one, mut to_one), (mut from_other, mut to_other)) = (split(one), split(other));
    let there = async {
        drop(copy(&mut from_one, &mut to_other).await);
        drop(to_other.shutdown().await);
    };
    let back = async {
        drop(copy(&mut from_other, &mut to_one).await);
        drop(to_one.shutdown().await);
    };
    tokio::join!(there, back);
}
