//! Leases: how a server and an agent on another machine agree that a task has ended, although they
//! do not hear each other. The agent ends its fenced tasks when its lease is over by its own clock;
//! the server waits until that must have happened.
//!
//! Source: Gray and Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for Distributed File
//! Cache Consistency", SOSP 1989.

use serde::{Deserialize, Serialize};

use crate::unit::{Millis, Timestamp};

/// The reaction of a job to the loss of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnNodeLost {
    /// It counts as running until its agent reports again: it may still run.
    #[default]
    Wait,
    /// It runs again elsewhere. Its agent ends it when the lease is over.
    Requeue,
    /// It ends as lost. Its agent ends it when the lease is over.
    End,
}

impl OnNodeLost {
    /// Every value with its word.
    pub const WORDS: [(&str, Self); 3] =
        [("wait", Self::Wait), ("requeue", Self::Requeue), ("end", Self::End)];

    /// Returns the word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Requeue => "requeue",
            Self::End => "end",
        }
    }

    /// Whether the agent ends the job when its lease is over.
    #[must_use]
    pub fn is_fenced(self) -> bool {
        self != Self::Wait
    }

    pub(crate) fn is_wait(&self) -> bool {
        *self == Self::Wait
    }
}

/// The silence of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// When it was last heard.
    pub since: Timestamp,
    /// Whether its lease is over by every clock: its fenced tasks have ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_lost: bool,
}

/// How long a lease lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseTerms {
    /// The time from a beat of the agent to the end of the lease that the answer to this beat
    /// renews; by the clock of the agent, from the moment of sending.
    pub lasts: Millis,
}

impl LeaseTerms {
    /// The terms of agents on other machines.
    pub const USUAL: Self = Self { lasts: Millis::from_secs(30) };

    /// The time between SIGTERM and SIGKILL when the lease ends a task.
    pub const GRACE: Millis = Millis::from_secs(5);

    /// The time that the processes of a task have to end after SIGKILL.
    const KILL: Millis = Millis::from_secs(5);

    /// The longest that a second of an agent may take by the clock of the server, in milliseconds:
    /// each of the clocks may run up to 5 % fast or slow, so it is (1 + 0.05) / (1 - 0.05).
    const SECOND: u64 = 1106;

    /// The time between two beats of an agent: several may be lost before the lease is over.
    #[must_use]
    pub fn beat_every(self) -> Millis {
        Millis::new(self.lasts.get() / 6)
    }

    /// The time from the last message of an agent, by the clock of the server, after which its
    /// fenced tasks have ended.
    #[must_use]
    pub fn lost_after(self) -> Millis {
        let own = self.lasts.saturating_add(Self::GRACE).get();
        Millis::new((own * Self::SECOND).div_ceil(1000)).saturating_add(Self::KILL)
    }

    /// When a lease is over that was renewed by the answer to a beat of this time; by the clock of
    /// the agent, in milliseconds since it was booted.
    #[must_use]
    pub fn over_at(self, sent_at: u64) -> u64 {
        sent_at.saturating_add(self.lasts.get())
    }
}
