//! The messages of each direction.

use gpool_model::LeaseTerms;
use gpool_model::agent::{Order, Report};
use gpool_model::id::{Incarnation, NodeName};
use serde::{Deserialize, Serialize};

use crate::files::{FileAnswer, OutputPart};
use crate::frame::Message;
use crate::question::{Answer, Question, QuestionId};
use crate::telemetry::Telemetry;

/// The version of this protocol. Each minor release of gpool that changes a message has the next
/// one.
pub const VERSION: u32 = 1;

/// Whether this version works with a peer of another one: they are at most one apart, so that the
/// machines of a cluster can be upgraded one after the other.
#[must_use]
pub fn understands(version: u32) -> bool {
    version.abs_diff(VERSION) <= 1
}

/// A message from the server to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// The answer to [`Hello`]: the server takes this run of the agent for that of its node.
    Welcome {
        /// The [`VERSION`] of the server.
        version: u32,
        /// The terms of the agent's lease; an agent in the server's process has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<LeaseTerms>,
    },
    /// The answer to [`Hello`] of a version that the server does not understand. It sends nothing
    /// else.
    Refused {
        /// The [`VERSION`] of the server.
        version: u32,
        /// The release of the server: `0.3.1`.
        release: String,
    },
    /// The lease is renewed.
    Renewed {
        /// The beat that this answers.
        beat: u64,
    },
    Order {
        /// The run of the agent that may carry it out; any run if absent. The others drop it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Incarnation>,
        /// The last beat of the agent that the server had answered, if the agent has a lease: a
        /// fenced task is not started after the lease of that beat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beat: Option<u64>,
        order: Order,
    },
    Question {
        /// Its id, which the answer repeats.
        id: QuestionId,
        question: Question,
    },
}

/// A message from an agent to its server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToServer {
    Hello(Hello),
    /// A report. Reports of an agent arrive in sending order.
    Report(Box<Report>),
    /// The last values of devices and tasks.
    Telemetry(Telemetry),
    Answer {
        id: QuestionId,
        answer: Answer,
    },
}

impl Message for ToAgent {}

impl Message for ToServer {
    fn body(&self) -> &[u8] {
        match self {
            Self::Answer {
                answer: Answer::Files(FileAnswer::Output(OutputPart::Bytes { bytes, .. })),
                ..
            } => bytes,
            _ => &[],
        }
    }

    fn set_body(&mut self, body: &[u8]) {
        if let Self::Answer {
            answer: Answer::Files(FileAnswer::Output(OutputPart::Bytes { bytes, .. })),
            ..
        } = self
        {
            *bytes = body.to_vec();
        }
    }
}

/// The first message of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The [`VERSION`] of the agent.
    pub version: u32,
    /// Its release: `0.3.1`.
    #[serde(default)]
    pub release: String,
    pub node: NodeName,
    pub incarnation: Incarnation,
}
