//! The stream of events, which resumes by itself.

use std::io::{BufRead, BufReader, Read};

use gpool_wire::{Event, EventKind};
use ureq::http::Response;
use ureq::{Body, BodyReader};

use crate::call::{Call, Client, escaped};
use crate::error::{Error, bad_answer, of_io};

/// Longest line of the stream; events are much shorter.
const LINE_MAX: u64 = 1 << 20;

/// Events in order. After a lost connection the stream continues after the last returned event; it
/// ends with an error if the server stays away.
pub struct Events {
    client: Client,
    last: Option<String>,
    stream: Option<BufReader<BodyReader<'static>>>,
    failed: bool,
}

impl Events {
    pub(crate) fn open(client: Client, after: Option<String>) -> Result<Self, Error> {
        let mut events = Self { client, last: after, stream: None, failed: false };
        let response = events.client.stream(&events.call())?;
        events.read_from(response);
        Ok(events)
    }

    /// The ID of the last returned event, to resume from later.
    #[must_use]
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    fn call(&self) -> Call {
        let call = Call::get("/events").header("accept", &"text/event-stream");
        match &self.last {
            // Escaping makes any text a valid header; valid IDs stay unchanged.
            Some(last) => call.header("last-event-id", &escaped(last)),
            None => call,
        }
    }

    fn read_from(&mut self, response: Response<Body>) {
        let body = response.into_body().into_with_config().limit(u64::MAX);
        self.stream = Some(BufReader::new(body.reader()));
    }

    /// The next event of this connection; `None` at its end.
    fn read(&mut self) -> Result<Option<Event>, Error> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let mut data = String::new();
        loop {
            let mut line = String::new();
            let n_read = stream.by_ref().take(LINE_MAX).read_line(&mut line).map_err(of_io)?;
            if n_read == 0 {
                return Ok(None);
            }
            match line.trim_end_matches(['\r', '\n']) {
                "" if data.is_empty() => {}
                "" => {
                    let read = serde_json::from_str(&data);
                    return read.map(Some).map_err(|error| bad_answer(&error));
                }
                // IDs and types are in the data too; lines that begin with a colon only keep the
                // connection alive.
                line => data.push_str(line.strip_prefix("data:").unwrap_or_default().trim_start()),
            }
        }
    }

    fn resume(&mut self) -> Result<(), Error> {
        let response = self.client.stream_again(&self.call())?;
        self.read_from(response);
        Ok(())
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            match self.read() {
                Ok(Some(event)) => {
                    self.last = Some(event.id.clone());
                    return Some(Ok(event));
                }
                Ok(None) | Err(Error::Lost { .. } | Error::TimedOut) => {
                    if let Err(error) = self.resume() {
                        self.failed = true;
                        return Some(Err(error));
                    }
                    if self.last.is_none() {
                        return Some(Ok(resync()));
                    }
                }
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Stands for missed events that can't be requested, since no earlier event was seen.
fn resync() -> Event {
    let time = "1970-01-01T00:00:00Z".parse().expect("this is how a moment is written");
    Event { id: String::new(), seq: 0, time, kind: EventKind::Resync }
}
