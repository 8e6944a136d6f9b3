//! Streams to running jobs, and the connections of agents: a request that is upgraded to a byte
//! stream. Implemented here, since the HTTP library has no upgrades.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gpool_wire::attach::UPGRADE;
use gpool_wire::{API_PREFIX, AttachJob, Document, ExecInJob, ForwardToJob, Login, Problem, json};
use serde::Serialize;

use crate::call::{Call, Client, of_job};
use crate::error::Error;
use crate::silence::silence_of;
use crate::vigil::Vigil;

/// Most bytes of an answer's head.
const HEAD_MAX: usize = 64 * 1024;
/// Most bytes of a problem.
const PROBLEM_MAX: usize = 1 << 20;
/// How long the server may take to open a stream.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream to a job.
#[derive(Debug)]
pub struct JobStream {
    /// The connection.
    pub stream: UnixStream,
    /// Bytes that have already arrived.
    pub early: Vec<u8>,
    /// Checks the server's liveness while nothing arrives.
    pub vigil: Vigil,
}

impl Client {
    /// Attaches to the terminal of a job. The stream carries frames.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn attach(&self, id: &str, attach: &AttachJob) -> Result<JobStream, Error> {
        self.line(&of_job(id, "/attach"), attach)
    }

    /// Runs a program beside a job's own. The stream carries frames.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn exec(&self, id: &str, exec: &ExecInJob) -> Result<JobStream, Error> {
        self.line(&of_job(id, "/exec"), exec)
    }

    /// Connects to a port or socket of a job. The stream carries the connection's bytes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn forward(&self, id: &str, forward: &ForwardToJob) -> Result<JobStream, Error> {
        self.line(&of_job(id, "/forward"), forward)
    }

    /// Makes a link that opens a port or socket of a job in a browser, once.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn link(&self, id: &str, forward: &ForwardToJob) -> Result<Login, Error> {
        let call = Call::post(&of_job(id, "/link")).json(forward);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    fn line(&self, path: &str, body: &impl Serialize) -> Result<JobStream, Error> {
        let body = serde_json::to_vec(body).expect("requests are plain data");
        self.upgrade("POST", path, UPGRADE, &body)
    }

    /// Sends a request that becomes a stream of a protocol.
    pub(crate) fn upgrade(
        &self,
        method: &str,
        path: &str,
        protocol: &str,
        body: &[u8],
    ) -> Result<JobStream, Error> {
        let vigil = self.vigil();
        let silent = |error: &std::io::Error| {
            silence_of(error).map(|silence| Error::Silent { silence, maybe_done: true })
        };
        let stream = vigil
            .connect()
            .map_err(|error| silent(&error).unwrap_or_else(|| self.not_connected(&error)))?;
        let lost = |error: std::io::Error| match (silent(&error), error.kind()) {
            (Some(silent), _) => silent,
            (None, ErrorKind::WouldBlock | ErrorKind::TimedOut) => Error::TimedOut,
            _ => Error::Lost { why: error.to_string() },
        };
        let (host, token) = self.credentials();
        let token = token.map_or_else(String::new, |it| format!("authorization: {it}\r\n"));
        let head = format!(
            "{method} {API_PREFIX}{path} HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\n\
             {token}upgrade: {protocol}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        vigil.write_all(&stream, &request, patience(&vigil)).map_err(lost)?;
        let (head, early) = read_head(&vigil, &stream).map_err(lost)?;
        let answer = ResponseHead::read(&head)
            .ok_or_else(|| Error::BadAnswer { why: "the answer is not HTTP".to_owned() })?;
        if answer.status == 101 {
            stream.set_read_timeout(None).map_err(lost)?;
            stream.set_write_timeout(None).map_err(lost)?;
            return Ok(JobStream { stream, early, vigil });
        }
        Err(problem((&vigil, &stream), early, &answer).map_err(lost)?)
    }
}

fn patience(vigil: &Vigil) -> Option<Duration> {
    (!vigil.is_patient()).then_some(PATIENCE)
}

/// Reads up to the empty line after an answer's head, and the bytes that came with it.
fn read_head(vigil: &Vigil, stream: &UnixStream) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok((bytes, rest));
        }
        let n_read = vigil.read(stream, &mut buffer, patience(vigil))?;
        if n_read == 0 || bytes.len() > HEAD_MAX {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..n_read]);
    }
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status.
    pub status: u16,
    /// The length of the body.
    pub length: usize,
}

impl ResponseHead {
    /// Reads a head; `None` if it is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        Some(Self { status, length: length.unwrap_or(0) })
    }
}

fn problem(
    (vigil, stream): (&Vigil, &UnixStream),
    early: Vec<u8>,
    head: &ResponseHead,
) -> std::io::Result<Error> {
    let mut body = early;
    let mut buffer = [0; 4096];
    while body.len() < head.length.min(PROBLEM_MAX) {
        match vigil.read(stream, &mut buffer, Some(PATIENCE))? {
            0 => break,
            n_read => body.extend_from_slice(&buffer[..n_read]),
        }
    }
    body.truncate(head.length);
    let why = || format!("HTTP {} without a problem", head.status);
    Ok(match json::read::<Problem>(&body) {
        Ok(problem) => Error::Problem(problem),
        Err(_) => Error::BadAnswer { why: why() },
    })
}
