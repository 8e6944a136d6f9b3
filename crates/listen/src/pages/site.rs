//! Pages of jobs: the requests to a host of their own are carried to a port or socket of the job.
//!
//! The job's server is a program of its user, so it gets no cookie of gpool, and its pages are of
//! another origin than the dashboard. Only the owner of the job gets in, in a browser that used a
//! link of theirs. `docs/developing/adr` has the reasons.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Request, Response, StatusCode, Uri};
use gpool_wire::{Problem, catalogue};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;

use super::answer::{message, no_page, see};
use super::sign_in::with_cookies;
use super::{Pages, RequestOrigin, refused};
use crate::entrance::RightsCheck;
use gpool_api::asker::Asks;
use gpool_api::attach::connect;
use gpool_api::connections::Seated;
use gpool_identity::web::sites::OWN_PATH;
use gpool_identity::web::{NotRedeemed, SessionKey, Sessions, Site};

/// The cookie on a loopback address, and over the network.
const COOKIES: [&str; 2] = ["gpool-notebook", "__Host-gpool-notebook"];
/// The cookies of all pages of gpool begin with these.
const OWN_COOKIES: [&str; 2] = ["gpool", "__Host-gpool"];
/// The most idle connections to the server of one site.
const IDLE_MAX: usize = 16;
/// How often the rights of a websocket are checked.
const RECHECK: Duration = Duration::from_secs(5);

/// Headers that concern one connection, beside `Upgrade`.
/// Source: RFC 9110, section 7.6.1.
const OF_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
];

/// Idle connections to servers of jobs, by the label of the site.
#[derive(Default)]
pub(super) struct Idle(Mutex<HashMap<String, Vec<SendRequest<Body>>>>);

impl Idle {
    fn take(&self, label: &str) -> Option<SendRequest<Body>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let senders = all.get_mut(label)?;
        senders.retain(|sender| !sender.is_closed());
        let ready = senders.iter().position(SendRequest::is_ready);
        ready.map(|ix| senders.swap_remove(ix))
    }

    /// Notes a connection, which may still carry an answer.
    fn keep_idle(&self, label: &str, sender: SendRequest<Body>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        let senders = all.entry(label.to_owned()).or_default();
        if senders.len() < IDLE_MAX {
            senders.push(sender);
        }
    }
}

/// The owner of the site at the other end, and their session.
struct Visitor {
    asks: Asks,
    session: SessionKey,
}

impl Pages {
    /// Answers a request to the host of a site.
    pub(crate) async fn site(
        &self,
        request: Request<Body>,
        label: &str,
        (from, uid): (IpAddr, Option<u32>),
    ) -> Response<Body> {
        let place = RequestOrigin { label, from, uid };
        let Some(site) = self.state.handle.shared.identities.sites.at(label) else {
            let text = "The address is wrong, or the server was restarted. Get another one:";
            return message(StatusCode::NOT_FOUND, "No such notebook", text, "gpool notebook open");
        };
        let visitor = self.visitor(&site, place, request.headers()).await;
        if let Some(rest) = request.uri().path().strip_prefix(OWN_PATH) {
            let code = rest.strip_prefix("open/").filter(|_| *request.method() == Method::GET);
            return match code {
                Some(code) => self.open_site(place, code, visitor.is_some()),
                None => no_page(),
            };
        }
        if !is_own(&request, self.scheme()) {
            let text = "Pages of other sites can't use a notebook.";
            return message(StatusCode::FORBIDDEN, "Not from here", text, "");
        }
        let Some(visitor) = visitor else {
            let text = "This browser has not opened the notebook. Only its owner can:";
            return message(StatusCode::UNAUTHORIZED, "Not open", text, "gpool notebook open");
        };
        match self.pass(&site, request, label, (from, visitor)).await {
            Ok(response) => response,
            Err(problem) if problem.code == catalogue::NOTHING_LISTENS.to_string() => {
                let mut response = refused(Default::default(), &problem);
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                // The program may be starting.
                response.headers_mut().insert(header::REFRESH, HeaderValue::from_static("2"));
                response
            }
            Err(problem) => refused(Default::default(), &problem),
        }
    }

    fn site_cookie(&self) -> &'static str {
        COOKIES[usize::from(self.is_remote)]
    }

    /// Uses a link up, and begins a session in the browser.
    fn open_site(&self, place: RequestOrigin<'_>, code: &str, is_open: bool) -> Response<Body> {
        let (sessions, now) = (&self.web.sessions, Instant::now());
        let begun = match self.is_remote {
            true => sessions.redeem_remote(place.label, code, now),
            false => sessions.redeem(place.at(), code, now),
        };
        match begun {
            Ok(secret) => {
                let secure = if self.is_remote { "; Secure" } else { "" };
                let name = self.site_cookie();
                let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax{secure}");
                with_cookies(see("/"), &[&cookie])
            }
            Err(NotRedeemed::Over) if is_open => see("/"),
            Err(NotRedeemed::Over) => {
                let text = "The link was used already, or is too old. Get another one:";
                message(StatusCode::FORBIDDEN, "This link is over", text, "gpool notebook open")
            }
            Err(NotRedeemed::OtherUser) => {
                tracing::warn!(target: "audit", uid = place.uid, "a notebook of another user");
                let text = "The link is for another user than the one that runs this browser.";
                message(StatusCode::FORBIDDEN, "Not your link", text, "gpool notebook open")
            }
        }
    }

    /// The user of a request, if it is the owner of the site.
    async fn visitor(
        &self,
        site: &Site,
        place: RequestOrigin<'_>,
        headers: &HeaderMap,
    ) -> Option<Visitor> {
        let visit = self.visit_by(self.site_cookie(), place, headers).await?;
        let is_owner = visit.asks.0.caller.owner.uid == site.owner;
        is_owner.then_some(Visitor { asks: visit.asks, session: visit.session })
    }

    /// Carries a request to the job, and its answer back.
    async fn pass(
        &self,
        site: &Site,
        mut request: Request<Body>,
        label: &str,
        (from, visitor): (IpAddr, Visitor),
    ) -> Result<Response<Body>, Problem> {
        let seat = request.extensions().get::<Seated>().cloned();
        let upgrade = request.headers().contains_key(header::UPGRADE);
        let upgrade = upgrade.then(|| hyper::upgrade::on(&mut request));
        let request = to_job(request, from, self.scheme(), upgrade.is_some());
        let mut response = self.send_to(site, request, label).await?;
        let upgrade = upgrade.filter(|_| response.status() == StatusCode::SWITCHING_PROTOCOLS);
        if let Some(outer) = upgrade {
            let inner = hyper::upgrade::on(&mut response);
            let lost = lost(
                (self.web.sessions.clone(), RightsCheck::new(self.entrance.clone())),
                visitor,
                self.end.clone(),
            );
            tokio::spawn(async move {
                tokio::select! {
                    () = carry(outer, inner) => {}
                    () = lost => {}
                }
                drop(seat);
            });
        }
        Ok(from_job(response))
    }

    /// Sends a request to the job over an idle connection, or else over a new one.
    async fn send_to(
        &self,
        site: &Site,
        mut request: Request<Body>,
        label: &str,
    ) -> Result<Response<hyper::body::Incoming>, Problem> {
        while let Some(mut sender) = self.idle.take(label) {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.idle.keep_idle(label, sender);
                    return Ok(response);
                }
                // The job has closed the connection: the request was not sent.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(site, &error.into_error())),
                },
            }
        }
        let (stream, _) = connect(&self.state, site).await?;
        let made = handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.map_err(|error| broken(site, &error))?;
        // Its errors come with the answer.
        tokio::spawn(async move { drop(connection.with_upgrades().await) });
        let response = sender.send_request(request).await.map_err(|error| broken(site, &error))?;
        self.idle.keep_idle(label, sender);
        Ok(response)
    }
}

fn broken(site: &Site, error: &hyper::Error) -> Problem {
    let what = format!("the server in job {} did not answer: {error}", site.job);
    Problem::new(catalogue::JOB_NOT_REACHED, what).try_this(format!("gpool logs {}", site.job))
}

/// Carries bytes both ways after an upgrade. Errors are those of either end.
async fn carry(outer: OnUpgrade, inner: OnUpgrade) {
    let (Ok(outer), Ok(inner)) = (outer.await, inner.await) else { return };
    let (mut outer, mut inner) = (TokioIo::new(outer), TokioIo::new(inner));
    drop(tokio::io::copy_bidirectional(&mut outer, &mut inner).await);
}

/// Completes once the session is over or its user has lost rights, or when the server ends.
async fn lost(
    (sessions, mut check): (Arc<Sessions>, RightsCheck),
    visitor: Visitor,
    mut end: watch::Receiver<bool>,
) {
    let mut endings = sessions.endings();
    loop {
        tokio::select! {
            // In both cases it is checked again.
            _ = tokio::time::timeout(RECHECK, endings.changed()) => {}
            _ = end.wait_for(|end| *end) => return,
        }
        if !sessions.is_open(&visitor.session, Instant::now()) || !check.holds(&visitor.asks).await
        {
            return;
        }
    }
}

/// Whether no page of another origin made a request. Pages of other notebooks may be of the same
/// site, so that the browser sends the cookie with their requests.
/// Source: W3C Fetch Metadata Request Headers.
fn is_own<B>(request: &Request<B>, scheme: &str) -> bool {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let own = text("host").map(|host| format!("{scheme}://{host}"));
    if request.headers().contains_key(header::ORIGIN) && text("origin") != own.as_deref() {
        return false;
    }
    match text("sec-fetch-site") {
        None | Some("same-origin" | "none") => true,
        Some(_) => {
            let reads = [Method::GET, Method::HEAD].contains(request.method());
            let is_opened = text("sec-fetch-mode") == Some("navigate")
                && text("sec-fetch-dest") == Some("document");
            reads && is_opened
        }
    }
}

/// The request as the job gets it.
fn to_job(
    mut request: Request<Body>,
    from: IpAddr,
    scheme: &'static str,
    is_upgrade: bool,
) -> Request<Body> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let target = target.parse::<Uri>().unwrap_or_default();
    *request.uri_mut() = target;
    request.extensions_mut().clear();
    let headers = request.headers_mut();
    OF_CONNECTION.iter().for_each(|name| drop(headers.remove(name)));
    match is_upgrade {
        true => drop(headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"))),
        false => drop(headers.remove(header::UPGRADE)),
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let cookies: Vec<&str> =
        cookies.flat_map(|it| it.split("; ")).filter(|it| !is_ours(it)).collect();
    let cookies = HeaderValue::from_str(&cookies.join("; ")).ok().filter(|it| !it.is_empty());
    headers.remove(header::COOKIE);
    cookies.into_iter().for_each(|it| drop(headers.insert(header::COOKIE, it)));
    headers.remove(header::FORWARDED);
    headers.insert("x-forwarded-proto", HeaderValue::from_static(scheme));
    if let Ok(from) = HeaderValue::from_str(&from.to_string()) {
        headers.insert("x-forwarded-for", from);
    }
    if let Some(host) = headers.get(header::HOST).cloned() {
        headers.insert("x-forwarded-host", host);
    }
    request
}

/// Whether a cookie, or a header that sets one, has a name of gpool.
fn is_ours(cookie: &str) -> bool {
    let name = cookie.split('=').next().unwrap_or_default().trim();
    OWN_COOKIES.iter().any(|own| name.starts_with(own))
}

/// The answer as the browser gets it. Cookies for a whole domain would reach other notebooks.
fn from_job(response: Response<hyper::body::Incoming>) -> Response<Body> {
    let mut response = response.map(Body::new);
    let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    OF_CONNECTION.iter().for_each(|name| drop(headers.remove(name)));
    if is_upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let may_be_set = |value: &&HeaderValue| {
        let text = value.to_str().unwrap_or_default();
        let mut attributes = text.split(';').skip(1).map(|it| it.trim().to_ascii_lowercase());
        !text.is_empty() && !is_ours(text) && !attributes.any(|it| it.starts_with("domain"))
    };
    let set: Vec<HeaderValue> =
        headers.get_all(header::SET_COOKIE).iter().filter(may_be_set).cloned().collect();
    headers.remove(header::SET_COOKIE);
    for value in set {
        headers.append(header::SET_COOKIE, value);
    }
    response
}
