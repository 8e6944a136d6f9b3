//! One request and its answer: time limits, retries, and problems as errors.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_wire::{API_PREFIX, Problem, catalogue, json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Body, SendBody};

use crate::absence::{Absence, ServerPresence};
use crate::error::{Error, bad_answer, of_io, of_ureq};
use crate::remote::{Address, Remote};
use crate::socket::{self, ServerLocation, Surroundings, Way};
use crate::transport::{AbortableBody, HungUp, NoResolver, NotConnected, UnixConnector};
use crate::vigil::Vigil;

/// How long a request is retried after a lost connection, by default.
const RETRY_FOR: Duration = Duration::from_secs(10);
/// Pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Pause before the next try, if the server reported too many requests.
const PAUSE_IF_TOO_MUCH: Duration = Duration::from_secs(1);
/// Longest URI that the library accepts; no server accepts one.
const ADDRESS_MAX: usize = 60_000;
/// Largest answer that is read into memory.
const ANSWER_MAX: u64 = 256 << 20;

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    way: Way,
    timeout: Option<Duration>,
    retry_for: Duration,
    absence: Absence,
}

/// A request before it is sent.
pub(crate) struct Call {
    pub(crate) method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
    /// Whether sending it twice has the same effect as once.
    pub(crate) repeatable: bool,
}

impl Call {
    pub(crate) fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: format!("{API_PREFIX}{path}"),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            repeatable: true,
        }
    }

    pub(crate) fn post(path: &str) -> Self {
        Self { method: Method::POST, repeatable: false, ..Self::get(path) }
    }

    pub(crate) fn patch(path: &str) -> Self {
        Self { method: Method::PATCH, repeatable: false, ..Self::get(path) }
    }

    /// Repeatable: a second request stores the same.
    pub(crate) fn put(path: &str) -> Self {
        Self { method: Method::PUT, ..Self::get(path) }
    }

    /// Not repeatable: a second request would find the object missing.
    pub(crate) fn delete(path: &str) -> Self {
        Self { method: Method::DELETE, repeatable: false, ..Self::get(path) }
    }

    /// A path outside the versioned API.
    pub(crate) fn at_root(path: &str) -> Self {
        Self { path: path.to_owned(), ..Self::get("") }
    }

    pub(crate) fn query(mut self, name: &'static str, value: &impl ToString) -> Self {
        self.query.push((name, value.to_string()));
        self
    }

    pub(crate) fn query_if(self, name: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.query(name, &value),
            None => self,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Self {
        self.body = Some(serde_json::to_vec(body).expect("requests are plain data"));
        self.header("content-type", &"application/json")
    }

    pub(crate) fn bytes(mut self, body: &[u8]) -> Self {
        self.body = Some(body.to_vec());
        self.header("content-type", &"application/octet-stream")
    }

    fn uri(&self, host: &str) -> String {
        let mut uri = format!("http://{host}{}", self.path);
        for (position, (name, value)) in self.query.iter().enumerate() {
            uri.push(if position == 0 { '?' } else { '&' });
            uri.push_str(name);
            uri.push('=');
            uri.push_str(&escaped(value));
        }
        uri
    }
}

/// Percent-encodes a part of a path or query.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

impl Client {
    /// Finds a server: `--server`, `--context`, and what [`Surroundings::place`] lists.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with every socket that was tried; [`Error::SocketPath`],
    /// [`Error::SocketNotOurs`], [`Error::Context`].
    pub fn find(server: Option<&str>, context: Option<&str>) -> Result<Self, Error> {
        let mut surroundings = Surroundings::of_this_process();
        surroundings.context_flag = context.map(str::to_owned);
        let place: ServerLocation = surroundings.place(server)?;
        Ok(Self::by(socket::find(&place, surroundings.uid)?))
    }

    /// A client of the server with this socket, whether it answers or not.
    #[must_use]
    pub fn at(socket: &Path) -> Self {
        Self::by(Way::Socket(socket.to_owned()))
    }

    /// A client of a server on the network.
    #[must_use]
    pub fn remote(remote: Remote) -> Self {
        Self::by(Way::Remote(Arc::new(remote)))
    }

    fn by(way: Way) -> Self {
        let absence = Absence::default();
        Self {
            agent: agent(Vigil::new(way.clone(), absence.clone()), HungUp::default()),
            way,
            timeout: None,
            retry_for: RETRY_FOR,
            absence,
        }
    }

    /// Limits the time of one request, including retries. For streams (logs, events) the limit
    /// applies only until they begin.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Limits how long a repeatable request is retried after a lost connection.
    #[must_use]
    pub fn with_retries(mut self, retry_for: Duration) -> Self {
        self.retry_for = retry_for;
        self
    }

    /// Waits for a server that stays away or silent, and reports it.
    #[must_use]
    pub fn telling(self, tell: impl Fn(ServerPresence) + Send + Sync + 'static) -> Self {
        self.with_absence(Absence::telling(tell, true))
    }

    /// Reports if a living server takes long to answer.
    #[must_use]
    pub fn noting(self, tell: impl Fn(ServerPresence) + Send + Sync + 'static) -> Self {
        self.with_absence(Absence::telling(tell, false))
    }

    fn with_absence(mut self, absence: Absence) -> Self {
        self.agent = agent(Vigil::new(self.way.clone(), absence.clone()), HungUp::default());
        self.absence = absence;
        self
    }

    /// The guard that checks the server's liveness while it answers nothing.
    #[must_use]
    pub fn vigil(&self) -> Vigil {
        Vigil::new(self.way.clone(), self.absence.clone())
    }

    /// The server's socket; `None` over the network.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match &self.way {
            Way::Socket(path) => Some(path),
            Way::Remote(_) => None,
        }
    }

    /// The server's address on the network; `None` on a socket.
    #[must_use]
    pub fn address(&self) -> Option<&Address> {
        match &self.way {
            Way::Socket(_) => None,
            Way::Remote(remote) => Some(&remote.address),
        }
    }

    /// The host and the token of requests.
    pub(crate) fn credentials(&self) -> (String, Option<String>) {
        match &self.way {
            Way::Socket(_) => ("gpool".to_owned(), None),
            Way::Remote(remote) => {
                let token = Some(&remote.token).filter(|token| !token.is_empty());
                (remote.address.authority(), token.map(|token| format!("Bearer {token}")))
            }
        }
    }

    /// Sends a request and reads its JSON answer.
    pub(crate) fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        self.with_tries(call, |left| {
            let response = self.send(call, left)?;
            let bytes = read_all(response)?;
            understand(&bytes)
        })
    }

    /// Sends a request and reads its text answer.
    pub(crate) fn text(&self, call: &Call) -> Result<String, Error> {
        let bytes = self.bytes(call)?;
        String::from_utf8(bytes).map_err(|error| Error::BadAnswer { why: error.to_string() })
    }

    /// Sends a request and returns its answer.
    pub(crate) fn bytes(&self, call: &Call) -> Result<Vec<u8>, Error> {
        self.with_tries(call, |left| read_all(self.send(call, left)?))
    }

    /// Sends a request and ignores its answer.
    pub(crate) fn tell(&self, call: &Call) -> Result<(), Error> {
        self.with_tries(call, |left| read_all(self.send(call, left)?).map(drop))
    }

    /// Sends a request and returns its answer as a stream.
    pub(crate) fn stream(&self, call: &Call) -> Result<Response<Body>, Error> {
        let request = self.agent.configure_request(self.request_of(call, ())?);
        let request = request.timeout_recv_response(self.timeout).build();
        self.checked(self.agent.run(request))
    }

    /// Reopens a stream after a lost connection; waits for a server that is away.
    pub(crate) fn stream_again(&self, call: &Call) -> Result<Response<Body>, Error> {
        let began = Instant::now();
        loop {
            match self.stream(call) {
                Err(error) if error.is_away() && began.elapsed() < self.retry_for => {
                    std::thread::sleep(RETRY_PAUSE);
                }
                other => return other,
            }
        }
    }

    /// Sends a request with a body that is read while it is sent.
    pub(crate) fn upload<T: DeserializeOwned>(
        &self,
        call: &Call,
        body: &mut dyn Read,
    ) -> Result<T, Error> {
        // A separate connection, so that the hang-up flag belongs to this request only.
        let hung_up = HungUp::default();
        let once = agent(self.vigil(), Arc::clone(&hung_up));
        let mut body = AbortableBody { body, hung_up };
        let request = self.request_of(call, SendBody::from_reader(&mut body))?;
        let request = once.configure_request(request).timeout_global(self.timeout).build();
        let answered = self.checked(once.run(request)).and_then(read_all);
        understand(&answered.map_err(Error::maybe_done)?)
    }

    fn send(&self, call: &Call, left: Option<Duration>) -> Result<Response<Body>, Error> {
        if call.method == Method::GET {
            let request = self.agent.configure_request(self.request_of(call, ())?);
            return self.checked(self.agent.run(request.timeout_global(left).build()));
        }
        let body = call.body.as_deref().unwrap_or_default();
        let request = self.agent.configure_request(self.request_of(call, body)?);
        self.checked(self.agent.run(request.timeout_global(left).build()))
    }

    fn checked(
        &self,
        result: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, Error> {
        let checked = self.judged(result);
        match &checked {
            Err(error) if error.is_away() => self.absence.away(),
            Err(Error::Silent { .. } | Error::TimedOut) => {}
            Ok(_) | Err(_) => self.absence.back(),
        }
        checked
    }

    fn judged(&self, result: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, Error> {
        let response = result.map_err(|error| self.failed(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let bytes = read_all(response)?;
        match json::read::<Problem>(&bytes) {
            Ok(problem) => Err(Error::Problem(problem)),
            Err(_) if matches!(status.as_u16(), 414 | 431) => {
                Err(Error::Problem(headers_too_large()))
            }
            Err(_) => Err(Error::BadAnswer { why: format!("HTTP {status} without a problem") }),
        }
    }

    fn failed(&self, error: ureq::Error) -> Error {
        if let ureq::Error::Other(inner) = &error
            && let Some(NotConnected(why)) = inner.downcast_ref::<NotConnected>()
        {
            return self.not_connected(why);
        }
        of_ureq(error)
    }

    /// The error if no connection can be made.
    pub(crate) fn not_connected(&self, why: &std::io::Error) -> Error {
        match &self.way {
            Way::Remote(remote) => remote.unreachable(why),
            Way::Socket(socket) if why.kind() == std::io::ErrorKind::PermissionDenied => {
                Error::MayNotConnect { socket: socket.clone() }
            }
            Way::Socket(socket) => {
                Error::Unreachable { tried: vec![(socket.clone(), socket::in_words(why))] }
            }
        }
    }

    fn request_of<B>(&self, call: &Call, body: B) -> Result<Request<B>, Error> {
        let (host, token) = self.credentials();
        let uri = call.uri(&host);
        if uri.len() > ADDRESS_MAX {
            return Err(Error::Problem(headers_too_large()));
        }
        let mut request = Request::builder().method(call.method.clone()).uri(uri);
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let bad = |_| Error::Context { why: "the token has characters that none has".to_owned() };
        request.body(body).map_err(bad)
    }

    /// Sends a request and retries where that is allowed, within the time limit. Waits for a server
    /// only if it has answered before.
    fn with_tries<T>(
        &self,
        call: &Call,
        mut attempt: impl FnMut(Option<Duration>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let changes = call.method != Method::GET;
        let mut was_sent = false;
        let began = Instant::now();
        let mut was_there = self.absence.is_missed();
        loop {
            let left = self.timeout.map(|limit| limit.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::TimedOut);
            }
            let error = match attempt(left) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            was_there |= matches!(error, Error::Lost { .. } | Error::Problem(_));
            let (again, pause) = match error.is_too_much() {
                true => (true, PAUSE_IF_TOO_MUCH),
                false => (call.repeatable && was_there && error.is_away(), RETRY_PAUSE),
            };
            was_sent |= changes && matches!(error, Error::Lost { .. });
            if !again || began.elapsed() + pause > self.retry_for {
                return Err(match error {
                    // An earlier try may have been carried out.
                    Error::Unreachable { .. } | Error::NoRemote { .. } if was_sent => {
                        Error::Lost { why: "and no server has answered since".to_owned() }
                    }
                    error if changes => error.maybe_done(),
                    error => error,
                });
            }
            std::thread::sleep(pause);
        }
    }
}

/// Size of each of the two buffers of a connection, in bytes. The library first fills them with
/// zeros, and its own size of 128 KiB costs more than to parse the command line. The longest
/// address fits.
const BUFFER: usize = 64 << 10;

fn agent(vigil: Vigil, hung_up: HungUp) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent(concat!("gpool/", env!("CARGO_PKG_VERSION")))
        .input_buffer_size(BUFFER)
        .output_buffer_size(BUFFER)
        .build();
    Agent::with_parts(config, UnixConnector::new(vigil, hung_up), NoResolver)
}

/// The HTTP library may refuse the request before it reaches the server's code, so the client makes
/// the problem; also for URIs that the client refuses.
fn headers_too_large() -> Problem {
    let what = "the request's address and headers are larger than the server accepts";
    Problem::new(catalogue::HEADERS_TOO_LARGE, what)
}

fn read_all(response: Response<Body>) -> Result<Vec<u8>, Error> {
    let body = response.into_body().into_with_config().limit(ANSWER_MAX);
    let mut bytes = Vec::new();
    body.reader().read_to_end(&mut bytes).map_err(of_io)?;
    Ok(bytes)
}

fn understand<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| bad_answer(&error))
}

pub(crate) fn of_job(id: &str, rest: &str) -> String {
    format!("/jobs/{}{rest}", escaped(id))
}
