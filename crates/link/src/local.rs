//! The link to an agent in the server's process: an in-memory pipe of frames to the agent, and
//! direct calls to the server.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use gpool_model::job::BlobId;
use gpool_protocol::{Decoder, FrameError, QuestionId, ToAgent, ToServer, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{AgentEnd, AgentLink, Connection, Messages, ServerInbox, ServerLink};

/// Returns both ends of a new link. It is open until the server drops its end.
#[must_use]
pub fn link(inbox: Arc<dyn ServerInbox>) -> (Arc<dyn AgentLink>, AgentEnd) {
    let (sender, frames) = channel();
    let messages = Box::new(Incoming { frames, decoder: Decoder::default() });
    (Arc::new(ToAgents(sender)), AgentEnd { server: Arc::new(ToServers(inbox)), messages })
}

/// The pipe to the agent.
struct ToAgents(Sender<Vec<u8>>);

impl AgentLink for ToAgents {
    fn send(&self, message: &ToAgent) {
        if let Some(frame) = frame(message) {
            // The agent has stopped.
            drop(self.0.send(frame));
        }
    }
}

struct Incoming {
    frames: Receiver<Vec<u8>>,
    decoder: Decoder,
}

impl Messages for Incoming {
    fn next_message(&mut self) -> Option<ToAgent> {
        loop {
            if let Some(message) = decoded(&mut self.decoder) {
                return Some(message);
            }
            self.decoder.push(&self.frames.recv().ok()?);
        }
    }
}

/// The way to the server. A message is decoded in the agent's thread, which saves a change of
/// threads.
struct ToServers(Arc<dyn ServerInbox>);

impl ServerLink for ToServers {
    fn send(&self, message: &ToServer) {
        let Some(frame) = frame(message) else { return };
        let mut decoder = Decoder::default();
        decoder.push(&frame);
        if let Some(message) = decoded(&mut decoder) {
            self.0.message(message);
        }
    }

    fn connect(&self, question: QuestionId, connection: Connection) {
        self.0.connection(question, connection);
    }

    fn blob(&self, id: &BlobId) -> io::Result<Vec<u8>> {
        self.0.blob(id)
    }
}

/// The frame of a message; one that is too large is logged.
fn frame(message: &impl Serialize) -> Option<Vec<u8>> {
    let frame = encode(message);
    frame.inspect_err(|error| tracing::error!(%error, "can't send a message")).ok()
}

/// The next message of a decoder. Messages that can't be read are logged and skipped.
fn decoded<M: DeserializeOwned>(decoder: &mut Decoder) -> Option<M> {
    loop {
        match decoder.next_message() {
            Ok(message) => return message,
            // Its end is unknown.
            Err(error @ FrameError::TooLarge { .. }) => {
                tracing::error!(%error, "a link is broken");
                return None;
            }
            Err(error) => tracing::error!(%error, "skipped a message"),
        }
    }
}
