//! The output of jobs, as a byte stream.

use std::io::{self, ErrorKind, Read};

use gpool_wire::{LOG_OFFSET, Time};
use ureq::http::Response;
use ureq::{Body, BodyReader};

use crate::call::{Call, Client, of_job};
use crate::error::Error;
use crate::silence::silence_of;

/// One of a job's two output streams, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
    /// Both, in the order of writing.
    Both,
}

impl LogStream {
    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Both => "both",
        }
    }
}

/// The part of a job's output to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogQuery {
    /// The stream.
    pub stream: LogStream,
    /// Whether to continue until the job has ended.
    pub follow: bool,
    /// Skip everything if the output was last written before this time.
    pub since: Option<Time>,
    /// At first, only this number of last lines.
    pub tail: Option<u64>,
    /// The attempt; `None` for the last.
    pub attempt: Option<u32>,
    /// The rank of the task; `None` for the first task.
    pub rank: Option<u32>,
}

impl LogQuery {
    fn call(&self, id: &str) -> Call {
        Call::get(&of_job(id, "/logs"))
            .query("stream", &self.stream.as_str())
            .query("follow", &self.follow)
            .query_if("since", self.since.as_ref())
            .query_if("tail", self.tail)
            .query_if("attempt", self.attempt)
            .query_if("rank", self.rank)
    }
}

/// A job's output; ends with the output.
pub struct Logs {
    client: Client,
    id: String,
    query: LogQuery,
    /// The byte position of the reader.
    position: u64,
    /// The position at the last resumption.
    resumed_at: Option<u64>,
    reader: BodyReader<'static>,
}

impl Logs {
    pub(crate) fn open(client: Client, id: &str, query: LogQuery) -> Result<Self, Error> {
        let response = client.stream(&query.call(id))?;
        let position = response.headers().get(LOG_OFFSET).and_then(|value| value.to_str().ok());
        let position = position.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let reader = reader(response);
        Ok(Self { client, id: id.to_owned(), query, position, resumed_at: None, reader })
    }

    fn resume(&mut self) -> Result<(), Error> {
        let rest = LogQuery { since: None, tail: None, ..self.query.clone() };
        let call = rest.call(&self.id).query("offset", &self.position);
        self.reader = reader(self.client.stream_again(&call)?);
        self.resumed_at = Some(self.position);
        Ok(())
    }
}

fn reader(response: Response<Body>) -> BodyReader<'static> {
    response.into_body().into_with_config().limit(u64::MAX).reader()
}

impl Read for Logs {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Ok(n_read) => {
                    self.position += n_read as u64;
                    return Ok(n_read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                // The server is there, but answers nothing on other connections either.
                Err(error) if silence_of(&error).is_some() => return Err(error),
                // Nothing came since the last resumption, so the connection is not the cause.
                Err(error) if !self.query.follow && self.resumed_at == Some(self.position) => {
                    return Err(error);
                }
                // Also without `follow`: the server disconnects a reader that pauses for long.
                Err(_) => self.resume().map_err(io::Error::other)?,
            }
        }
    }
}
