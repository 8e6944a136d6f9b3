//! What jobs have written, as a stream of bytes.

use std::io::{self, ErrorKind, Read};

use gpool_wire::{LOG_OFFSET, Time};
use ureq::http::Response;
use ureq::{Body, BodyReader};

use crate::call::{Call, Client, of_job};
use crate::error::Error;
use crate::silence::silence_of;

/// Which of a job's two streams, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
    /// Both, in the order of their writing.
    Both,
}

impl LogStream {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Both => "both",
        }
    }
}

/// What of a job's output to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogQuery {
    /// Which stream.
    pub stream: LogStream,
    /// Go on until the job has ended.
    pub follow: bool,
    /// Nothing, if the output was last written to before then.
    pub since: Option<Time>,
    /// Only so many of the last lines, at first.
    pub tail: Option<u64>,
    /// Of which run; `None` for the last.
    pub attempt: Option<u32>,
    /// Of which task, by its rank; `None` for the first.
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

/// A job's output; ends where the output does.
pub struct Logs {
    client: Client,
    id: String,
    query: LogQuery,
    /// How far it has been read.
    position: u64,
    /// How far it had been read when it was last resumed.
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
                // It is there, and says nothing on another connection either.
                Err(error) if silence_of(&error).is_some() => return Err(error),
                // Nothing came since: it is not the line that is at fault.
                Err(error) if !self.query.follow && self.resumed_at == Some(self.position) => {
                    return Err(error);
                }
                // Also without following: a reader that took a long pause is let go.
                Err(_) => self.resume().map_err(io::Error::other)?,
            }
        }
    }
}
