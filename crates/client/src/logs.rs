//! What jobs have written, as a stream of bytes.

use std::io::{self, Read};

use gpool_wire::Time;
use ureq::{Body, BodyReader};

/// Which of a job's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
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
    /// Only what the job wrote in files that were written to since then.
    pub since: Option<Time>,
    /// Only so many of the last lines, at first.
    pub tail: Option<u64>,
    /// Of which run; `None` for the last.
    pub attempt: Option<u32>,
}

/// A job's output; ends where the output does.
pub struct Logs {
    reader: BodyReader<'static>,
}

impl Logs {
    pub(crate) fn new(body: Body) -> Self {
        Self { reader: body.into_with_config().limit(u64::MAX).reader() }
    }
}

impl Read for Logs {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}
