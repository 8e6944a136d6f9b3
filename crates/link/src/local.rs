//! The link to an agent in the server's process: each end calls the other one directly, with
//! messages that were frames in between.

use std::io;
use std::sync::{Arc, OnceLock, Weak};

use gpool_model::id::TaskId;
use gpool_model::job::BlobId;
use gpool_protocol::{Decoder, FrameError, Message, QuestionId, ToAgent, ToServer, encode};

use crate::{
    AgentInbox, AgentLink, BlobReply, Connection, ResultPart, SecretQuery, ServerInbox, ServerLink,
};

/// Returns both ends of a new link.
#[must_use]
pub fn link(server: Arc<dyn ServerInbox>) -> (Arc<dyn AgentLink>, Arc<dyn ServerLink>) {
    let agent = Arc::new(OnceLock::new());
    (Arc::new(ServerEnd { agent: agent.clone() }), Arc::new(AgentEnd { server, agent }))
}

struct ServerEnd {
    /// Set once the agent listens.
    agent: Arc<OnceLock<Weak<dyn AgentInbox>>>,
}

impl AgentLink for ServerEnd {
    fn send(&self, message: &ToAgent) {
        if let Some(agent) = self.agent.get().and_then(Weak::upgrade)
            && let Some(message) = sent(message)
        {
            agent.message(message);
        }
    }
}

struct AgentEnd {
    server: Arc<dyn ServerInbox>,
    agent: Arc<OnceLock<Weak<dyn AgentInbox>>>,
}

impl ServerLink for AgentEnd {
    fn listen(&self, inbox: Weak<dyn AgentInbox>) {
        // A link is for one run of an agent.
        drop(self.agent.set(inbox));
    }

    fn send(&self, message: &ToServer) {
        if let Some(message) = sent(message) {
            self.server.message(message);
        }
    }

    fn connect(&self, question: QuestionId, connection: Connection) {
        self.server.connection(question, connection);
    }

    fn blob(&self, id: &BlobId, reply: BlobReply) {
        reply(self.server.blob(id));
    }

    fn secret(&self, query: &SecretQuery, reply: BlobReply) {
        reply(self.server.secret(query));
    }

    fn results(&self, task: TaskId, owner: u32, part: &ResultPart) -> io::Result<Vec<String>> {
        self.server.results(task, owner, part)
    }
}

/// Returns a message as the other end reads it. One that it can't read is logged and lost.
fn sent<M: Message>(message: &M) -> Option<M> {
    let read = || -> Result<Option<M>, FrameError> {
        let mut decoder = Decoder::default();
        decoder.push(&encode(message)?);
        decoder.next_message()
    };
    read().unwrap_or_else(|error| {
        tracing::error!(%error, "lost a message between server and agent");
        None
    })
}
