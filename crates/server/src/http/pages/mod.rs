//! The dashboard on a loopback address. Each page asks the API inside this process as the signed-in
//! user, so it shows what that user may see.
//!
//! A user signs in with a link that the API gives them once ([`login`]). The link has a random
//! host name below `localhost`, and the cookie holds for that name only: browsers send cookies to
//! every port of a host, and another user's server on this machine must not get them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Request, Response, StatusCode};
use axum::{Json, Router};
use gpool_model::Timestamp;
use gpool_web::{CSP, JobPage, Message, Overview, PROPERTIES, RANGES, UsagePage, Wall, asset};
use gpool_wire::usage::{GpuHistory, UsageRow};
use gpool_wire::{Document, Gpu, Job, JobEvent, List, Login, Problem, Status, Time, catalogue};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::de::DeserializeOwned;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use super::Api;
use super::asker::{Asker, Asks, Identify, Peer};
use super::extract::ApiError;
use crate::web::{SignedIn, Web};

/// Most connections of all browsers together.
const CONNECTIONS_MAX: usize = 512;
/// How long a browser may take for the headers of a request.
const HEADERS: Duration = Duration::from_secs(10);
/// Most jobs on a page.
const JOBS_MAX: u64 = 500;
/// Lines of output on the page of a job, and their bytes.
const LINES: u32 = 200;
const TEXT_MAX: usize = 64 << 10;
/// More bytes of an answer are not read: lines can be long.
const ANSWER_MAX: usize = 64 << 20;
/// Nobody's user and group ID, for pages without signing in.
const NOBODY: u32 = 65_534;

/// Makes a link that signs the caller in to the dashboard, once and within a minute.
#[utoipa::path(
    post, path = "/logins", operation_id = "logins_create",
    responses(
        (status = 200, description = "The link", body = Document<Login>),
        (status = 404, description = "This server has no dashboard", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn login(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<Document<Login>>, ApiError> {
    let Some(web) = api.handle.shared.web.get() else {
        let problem = Problem::new(catalogue::NO_SUCH_ROUTE, "this server has no dashboard");
        return Err(problem.try_this("set web = \"127.0.0.1:7478\" in gpool.toml").into());
    };
    let owner = &asker.caller.owner;
    let user = SignedIn { uid: owner.uid, gid: owner.gid };
    let (url, lasts) = web.invite(user, Instant::now());
    Ok(Json(Document::new(Login { url, expires_in_s: lasts.as_secs() })))
}

/// The pages.
pub(crate) struct Pages {
    web: Arc<Web>,
    identify: Identify,
    api: Router,
    nobody: Asks,
}

impl Pages {
    pub fn new(web: Arc<Web>, identify: Identify, api: Router) -> Arc<Self> {
        let user = Arc::from("nobody");
        let owner = gpool_model::Owner { uid: NOBODY, gid: NOBODY, user };
        let caller = gpool_model::Caller::new(owner, false);
        let nobody = Asks(Arc::new(Asker::new(caller, "/".to_owned(), None)));
        Arc::new(Self { web, identify, api, nobody })
    }

    /// Serves the listener until `end` is true.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, mut end: watch::Receiver<bool>) {
        let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(seat) = seats.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = end.wait_for(|end| *end) => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (pages, end) = (self.clone(), end.clone());
                    tokio::spawn(async move {
                        pages.connection(stream, end).await;
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

    async fn connection(self: Arc<Self>, stream: TcpStream, mut end: watch::Receiver<bool>) {
        let service = service_fn(move |request: Request<Incoming>| {
            let pages = self.clone();
            async move { Ok::<_, std::convert::Infallible>(pages.answer(&request).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(served);
        tokio::select! {
            // The browser's errors are its own.
            _ = served.as_mut() => {}
            _ = end.wait_for(|end| *end) => served.as_mut().graceful_shutdown(),
        }
    }

    async fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let Some(label) = self.label(request.headers()) else {
            let text = "This server answers only by its own address.";
            return message(StatusCode::MISDIRECTED_REQUEST, "Another host name", text, "");
        };
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let text = "The pages change nothing; use the gpool command.";
            return message(StatusCode::METHOD_NOT_ALLOWED, "Not possible here", text, "");
        }
        let path = request.uri().path();
        let page = match path.split('/').skip(1).collect::<Vec<_>>()[..] {
            [""] => self.overview(label, request.headers(), request.uri().query()).await,
            ["usage"] => self.usage(label, request.headers(), request.uri().query()).await,
            ["jobs", id] => self.job(label, request.headers(), id).await,
            ["wall"] => self.wall().await,
            ["login", code] => Ok(self.sign_in(label, code)),
            ["assets", name] => Ok(file(name)),
            ["healthz" | "readyz" | "metrics" | "openapi.json"] => self.forward(path).await,
            _ => Ok(message(
                StatusCode::NOT_FOUND,
                "There is no such page",
                "Start from the Overview.",
                "",
            )),
        };
        let unavailable = |why: String| {
            let title = "The server can't answer now";
            message(StatusCode::SERVICE_UNAVAILABLE, title, &why, "")
        };
        with_headers(page.unwrap_or_else(unavailable), path.starts_with("/assets/"))
    }

    /// The label below `localhost` in a request's host.
    fn label<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        self.web.label(headers.get(header::HOST)?.to_str().ok()?)
    }

    fn sign_in(&self, label: &str, code: &str) -> Response<Body> {
        let Some(secret) = self.web.sessions.redeem(label, code, Instant::now()) else {
            let text = "The link was used already, or is older than a minute. Get another one:";
            return message(StatusCode::FORBIDDEN, "This link is over", text, "gpool open");
        };
        let cookie = format!("gpool={secret}; Path=/; HttpOnly; SameSite=Strict");
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    /// The signed-in user. The account is looked up again for each page, because it may have lost
    /// rights.
    async fn user(&self, label: &str, headers: &HeaderMap) -> Option<Asks> {
        let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
        let secret = cookies.split("; ").find_map(|cookie| cookie.strip_prefix("gpool="))?;
        let SignedIn { uid, gid } = self.web.sessions.user(label, secret, Instant::now())?;
        let peer = Peer { uid, gid, pid: None };
        let identify = self.identify.clone();
        let found = tokio::task::spawn_blocking(move || identify(peer)).await.ok()?;
        Some(Asks(Arc::new(found)))
    }

    async fn overview(
        &self,
        label: &str,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Response<Body>, String> {
        let Some(asks) = self.user(label, headers).await else { return Ok(sign_in_first()) };
        let status: Document<Status> = self.ask(&asks, "/api/v1/status").await?;
        let gpus: List<Gpu> = self.ask(&asks, "/api/v1/gpus").await?;
        let jobs: List<Job> = self.ask(&asks, &format!("/api/v1/jobs?limit={JOBS_MAX}")).await?;
        // An hour while the server is new.
        let usual = RANGES[usize::from(status.body.uptime_s >= 7200)];
        let (range, hours) = range(query).unwrap_or(usual);
        let now = now();
        let since = before(now, hours);
        let path = format!("/api/v1/gpus/history?since={since}&until={now}");
        let history: Document<GpuHistory> = self.ask(&asks, &path).await?;
        let overview = Overview {
            history: &history.body,
            range,
            user: &asks.0.caller.owner.user,
            status: &status.body,
            gpus: &gpus.items,
            jobs: &jobs.items,
            n_jobs: jobs.total.unwrap_or(jobs.items.len() as u64),
            now,
        };
        Ok(html(StatusCode::OK, overview.page()))
    }

    async fn usage(
        &self,
        label: &str,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Response<Body>, String> {
        let Some(asks) = self.user(label, headers).await else { return Ok(sign_in_first()) };
        let (range, hours) = range(query).unwrap_or(RANGES[2]);
        let by = asked(query, "by").and_then(|by| PROPERTIES.into_iter().find(|it| *it == by));
        let by = by.unwrap_or(PROPERTIES[0]);
        let since = before(now(), hours);
        let usage: List<UsageRow> =
            self.ask(&asks, &format!("/api/v1/usage?by={by}&since={since}")).await?;
        let user = &asks.0.caller.owner.user;
        let page = UsagePage { user, rows: &usage.items, by, range };
        Ok(html(StatusCode::OK, page.page()))
    }

    async fn job(
        &self,
        label: &str,
        headers: &HeaderMap,
        id: &str,
    ) -> Result<Response<Body>, String> {
        let Some(asks) = self.user(label, headers).await else { return Ok(sign_in_first()) };
        // Nothing else may become a part of the API's path.
        if id.parse::<gpool_model::JobId>().is_err() {
            return Ok(message(StatusCode::NOT_FOUND, "There is no such job", "", ""));
        }
        let path = format!("/api/v1/jobs/{id}");
        let job: Document<Job> = match self.ask(&asks, &path).await {
            Ok(job) => job,
            Err(why) => {
                return Ok(message(StatusCode::NOT_FOUND, "There is no such job", &why, ""));
            }
        };
        let events: List<JobEvent> = self.ask(&asks, &format!("{path}/events")).await?;
        let output = self.text(&asks, &format!("{path}/logs?stream=both&tail={LINES}")).await;
        let page = JobPage {
            user: &asks.0.caller.owner.user,
            job: &job.body,
            events: &events.items,
            output: output.as_deref().map_err(String::as_str),
            now: now(),
        };
        Ok(html(StatusCode::OK, page.page()))
    }

    async fn wall(&self) -> Result<Response<Body>, String> {
        let status: Document<Status> = self.ask(&self.nobody, "/api/v1/status").await?;
        let gpus: List<Gpu> = self.ask(&self.nobody, "/api/v1/gpus").await?;
        let n = |states: &[&str]| -> u64 {
            let all = status.body.jobs.iter();
            all.filter(|(state, _)| states.contains(&state.as_str())).map(|(_, n)| n).sum()
        };
        let n_waiting = n(&["pending", "waiting", "held"]);
        let n_running = n(&["starting", "running", "stopping", "paused"]);
        Ok(html(StatusCode::OK, Wall { gpus: &gpus.items, n_running, n_waiting }.page()))
    }

    /// Asks the API.
    async fn ask<T: DeserializeOwned>(&self, asks: &Asks, target: &str) -> Result<T, String> {
        let body = self.bytes(asks, target).await?;
        serde_json::from_slice(&body).map_err(|error| error.to_string())
    }

    /// Asks the API for text; at most its last bytes.
    async fn text(&self, asks: &Asks, target: &str) -> Result<String, String> {
        let body = self.bytes(asks, target).await?;
        let from = body.len().saturating_sub(TEXT_MAX);
        Ok(String::from_utf8_lossy(&body[from..]).into_owned())
    }

    async fn bytes(&self, asks: &Asks, target: &str) -> Result<Bytes, String> {
        let response = self.call(asks.clone(), target).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if !status.is_success() {
            let problem: Option<Problem> = serde_json::from_slice(&body).ok();
            return Err(problem.map_or_else(|| status.to_string(), |it| it.detail));
        }
        Ok(body)
    }

    /// Answers as the API does, for nobody.
    async fn forward(&self, path: &str) -> Result<Response<Body>, String> {
        self.call(self.nobody.clone(), path).await
    }

    async fn call(&self, asks: Asks, target: &str) -> Result<Response<Body>, String> {
        let mut request = Request::get(target).body(Body::empty()).map_err(|it| it.to_string())?;
        request.extensions_mut().insert(asks);
        let Ok(response) = self.api.clone().oneshot(request).await;
        Ok(response)
    }
}

/// A parameter of a page.
fn asked<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// The range of a page with its hours, if the query has one.
fn range(query: Option<&str>) -> Option<(&'static str, u32)> {
    let name = asked(query, "range")?;
    RANGES.into_iter().find(|(known, _)| *known == name)
}

fn before(now: Time, hours: u32) -> Time {
    Time(Timestamp::new(now.0.get().saturating_sub(u64::from(hours) * 3_600_000)))
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(Timestamp::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}

fn html(status: StatusCode, page: String) -> Response<Body> {
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn sign_in_first() -> Response<Body> {
    let text = "Run this on the machine of the server, and open the link that it prints:";
    message(StatusCode::UNAUTHORIZED, "Sign in", text, "gpool open")
}

fn message(status: StatusCode, title: &str, text: &str, command: &str) -> Response<Body> {
    with_headers(html(status, Message { title, text, command }.page()), false)
}

fn file(name: &str) -> Response<Body> {
    let Some(asset) = asset(name) else {
        return message(StatusCode::NOT_FOUND, "There is no such file", "", "");
    };
    let mut response = Response::new(Body::from(asset.text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    response
}

/// Adds the headers that protect the pages in a browser.
fn with_headers(mut response: Response<Body>, is_asset: bool) -> Response<Body> {
    let caching = if is_asset { "max-age=300" } else { "no-store" };
    let headers = [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, caching),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
