//! One request: it is held until a replica can take it, sent, and sent to another replica if that
//! one dies before it has answered.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use gpool_client::Client;
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;

use super::answer::{AnswerBody, AnswerStream};
use super::headers::{add_forwarded, remove_hop_by_hop, set_upgrade, upgrade};
use super::replica::{Connection, Outgoing};
use super::table::{Lease, Refused, Table};

/// Longest body of a request that can be sent again.
const REPEATABLE: u64 = 1 << 20;
/// Longest body of an answer that is read before the client gets its head: if the replica dies
/// meanwhile, the request can still be repeated.
const WHOLE: u64 = 64 << 10;
/// How often a request is sent at most.
const ATTEMPTS: u32 = 5;
/// When a refused client should ask again.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("5");

/// The service behind a listener.
pub struct Proxy {
    /// Its replicas.
    pub table: Arc<Table>,
    /// For streams to replicas through the server.
    pub client: Client,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Whether it uses HTTPS.
    pub is_tls: bool,
}

/// Why an attempt failed.
struct Attempt {
    why: String,
    /// Whether the replica accepted no connection, so that it has not seen the request.
    is_unseen: bool,
}

/// The part of a request that each attempt sends.
enum Content {
    Repeatable(Bytes),
    Once(Option<Incoming>),
}

impl Proxy {
    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response<AnswerBody> {
        self.table.arrived();
        let since = Instant::now();
        let (mut head, body) = request.into_parts();
        let switched = match upgrade(&head.headers) {
            Some(protocol) => {
                let client_side = head.extensions.remove::<hyper::upgrade::OnUpgrade>();
                client_side.map(|client_side| (protocol, client_side))
            }
            None => None,
        };
        prepare(&mut head, peer);
        if let Some((protocol, client_side)) = switched {
            set_upgrade(&mut head.headers, protocol);
            return self.switch(head, client_side, since).await;
        }
        let mut content = match body.size_hint().exact() {
            Some(n) if n <= REPEATABLE => {
                match Limited::new(body, usize::try_from(n).unwrap_or(0)).collect().await {
                    Ok(read) => Content::Repeatable(read.to_bytes()),
                    Err(_) => return failure(StatusCode::BAD_REQUEST, "the body is incomplete"),
                }
            }
            _ => Content::Once(Some(body)),
        };
        for number in 1..=ATTEMPTS {
            let lease = match self.table.lease().await {
                Ok(lease) => lease,
                Err(refused) => return refusal(refused),
            };
            let sent = self.attempt(&head, &mut content, lease, since, number == 1);
            let failed = match sent.await {
                Ok(answer) => return answer,
                Err(failed) => failed,
            };
            if number == ATTEMPTS || !self.can_repeat(&head.method, &content, &failed) {
                self.table.failed();
                let why = format!("the replica did not answer: {}", failed.why);
                return failure(StatusCode::BAD_GATEWAY, &why);
            }
            self.table.repeated();
        }
        failure(StatusCode::BAD_GATEWAY, "no replica answered")
    }

    fn can_repeat(&self, method: &Method, content: &Content, failed: &Attempt) -> bool {
        let is_here = match content {
            Content::Repeatable(_) => true,
            Content::Once(body) => body.is_some(),
        };
        let may_repeat = method.is_idempotent() || self.table.rules().is_post_repeated;
        is_here && (failed.is_unseen || may_repeat)
    }

    /// Sends the request to one replica.
    async fn attempt(
        &self,
        head: &Parts,
        content: &mut Content,
        lease: Lease,
        since: Instant,
        is_first: bool,
    ) -> Result<Response<AnswerBody>, Attempt> {
        // An idle connection may just be closing: a body that can be sent only once, and a second
        // attempt, get a new one.
        let may_be_idle = is_first && matches!(content, Content::Repeatable(_));
        let (mut connection, was_idle) = self.connect(&lease, may_be_idle).await?;
        let body = match content {
            Content::Repeatable(bytes) => Either::Left(Full::new(bytes.clone())),
            Content::Once(body) => match body.take() {
                Some(body) => Either::Right(body),
                None => Either::Left(Full::default()),
            },
        };
        let answer = connection.send_request(copy(head, body)).await;
        let answer = answer.map_err(|error| died(&lease, &error, was_idle))?;
        let (mut head, body) = answer.into_parts();
        remove_hop_by_hop(&mut head.headers);
        head.version = Version::HTTP_11;
        let is_error = head.status.is_server_error();
        let is_short = body.size_hint().exact().is_some_and(|n| n <= WHOLE);
        if !is_short {
            self.table.answered(&lease.replica, is_error, since.elapsed());
            let stream = AnswerStream::new(body, connection, lease, self.table.clone());
            return Ok(Response::from_parts(head, AnswerBody::Stream(Box::new(stream))));
        }
        let whole = body.collect().await.map_err(|error| died(&lease, &error, false))?.to_bytes();
        if let Some(n) = crate::measure::tokens_in(&whole) {
            self.table.tokens(n);
        }
        self.table.answered(&lease.replica, is_error, since.elapsed());
        lease.replica.keep(connection);
        Ok(Response::from_parts(head, AnswerBody::Whole(Some(whole))))
    }

    /// Connects to the replica. Returns whether the connection was idle.
    async fn connect(
        &self,
        lease: &Lease,
        may_be_idle: bool,
    ) -> Result<(Connection, bool), Attempt> {
        lease.replica.connection(&self.client, may_be_idle).await.map_err(|why| {
            lease.replica.doubt();
            Attempt { why, is_unseen: true }
        })
    }

    /// Switches to another protocol, such as WebSocket, and copies bytes both ways.
    async fn switch(
        &self,
        head: Parts,
        client_side: hyper::upgrade::OnUpgrade,
        since: Instant,
    ) -> Response<AnswerBody> {
        let lease = match self.table.lease().await {
            Ok(lease) => lease,
            Err(refused) => return refusal(refused),
        };
        let failed = |why: &str| {
            self.table.failed();
            failure(StatusCode::BAD_GATEWAY, &format!("the replica did not answer: {why}"))
        };
        let mut connection = match self.connect(&lease, false).await {
            Ok((connection, _)) => connection,
            Err(attempt) => return failed(&attempt.why),
        };
        let request = copy(&head, Either::Left(Full::default()));
        let mut answer = match connection.send_request(request).await {
            Ok(answer) => answer,
            Err(error) => return failed(&died(&lease, &error, false).why),
        };
        let is_error = answer.status().is_server_error();
        self.table.answered(&lease.replica, is_error, since.elapsed());
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (mut head, body) = answer.into_parts();
            remove_hop_by_hop(&mut head.headers);
            let stream = AnswerStream::new(body, connection, lease, self.table.clone());
            return Response::from_parts(head, AnswerBody::Stream(Box::new(stream)));
        }
        let replica_side = hyper::upgrade::on(&mut answer);
        tokio::spawn(async move {
            // The lease counts the stream as a request in flight.
            let _lease = lease;
            if let (Ok(here), Ok(there)) = (client_side.await, replica_side.await) {
                let (mut here, mut there) = (TokioIo::new(here), TokioIo::new(there));
                let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
            }
        });
        let (head, _) = answer.into_parts();
        Response::from_parts(head, AnswerBody::Whole(None))
    }
}

/// Makes the head of the request to a replica.
fn prepare(head: &mut Parts, peer: Peer) {
    remove_hop_by_hop(&mut head.headers);
    // A request in absolute form has its host there only.
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
    add_forwarded(&mut head.headers, peer.address, peer.is_tls);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    head.version = Version::HTTP_11;
}

fn copy(head: &Parts, body: Outgoing) -> Request<Outgoing> {
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    request
}

/// The replica closed the connection before it had answered. It may merely have closed an idle
/// connection; otherwise it gets no requests before it has answered a probe.
fn died(lease: &Lease, error: &hyper::Error, was_idle: bool) -> Attempt {
    let is_unseen = error.is_canceled();
    if !is_unseen && !was_idle {
        lease.replica.doubt();
    }
    Attempt { why: error.to_string(), is_unseen }
}

fn refusal(refused: Refused) -> Response<AnswerBody> {
    let why = match refused {
        Refused::TooMany => "no replica is ready, and too many requests are held",
        Refused::TooLong => "no replica became ready in time",
    };
    let mut answer = failure(StatusCode::SERVICE_UNAVAILABLE, why);
    answer.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S);
    answer
}

fn failure(status: StatusCode, why: &str) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::text(format!("gpool: {why}\n")));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
