//! Who is told of what becomes of a job, and the messages that are still to be told: the outbox.
//! Nothing here sends.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Attempt, JobId, ProjectName};
use crate::job::owner::Owner;
use crate::job::state::JobState;
use crate::unit::{Millis, Timestamp};

/// What about a job is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyOn {
    /// It runs.
    Start,
    /// It succeeded.
    Done,
    /// It failed, was lost, or its time limit ended it.
    Fail,
    /// Its time limit ended it.
    Timeout,
    /// Somebody cancelled it, or it could never start.
    Cancel,
    /// It is held.
    Hold,
}

impl NotifyOn {
    /// Every one, in the order of a job's life, with its word.
    pub const ALL: [(&'static str, Self); 6] = [
        ("hold", Self::Hold),
        ("start", Self::Start),
        ("done", Self::Done),
        ("fail", Self::Fail),
        ("timeout", Self::Timeout),
        ("cancel", Self::Cancel),
    ];

    /// Whether a job that came into that state is told of.
    #[must_use]
    pub fn is_met_by(self, state: JobState) -> bool {
        match self {
            Self::Start => state == JobState::Running,
            Self::Done => state == JobState::Succeeded,
            Self::Fail => {
                matches!(state, JobState::Failed | JobState::TimedOut | JobState::Lost)
            }
            Self::Timeout => state == JobState::TimedOut,
            Self::Cancel => state == JobState::Cancelled,
            Self::Hold => state == JobState::Held,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, on)| *on == self);
        found.map_or("", |(word, _)| word)
    }
}

impl fmt::Display for NotifyOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where messages of a job go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NotifyRule {
    /// What is told.
    pub on: BTreeSet<NotifyOn>,
    /// Where to: an address that was checked where it came in. What follows the host may be a
    /// secret.
    pub url: Arc<str>,
    /// Whether an admin named it, who may name addresses inside the server's machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_admin: bool,
}

impl NotifyRule {
    /// Whether a job that came into that state is told of.
    #[must_use]
    pub fn is_met_by(&self, state: JobState) -> bool {
        self.on.iter().any(|on| on.is_met_by(state))
    }
}

/// The scheme, host and port of an address: what is asked together, and what may be shown.
#[must_use]
pub fn origin_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// The host of an address in lower case, whatever the scheme and port: those that share one machine
/// share its connections. All mail goes to the same program.
#[must_use]
pub fn host_of(url: &str) -> String {
    let origin = origin_of(url);
    let Some((_, rest)) = origin.split_once("://") else { return "mail".to_owned() };
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host =
        rest.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(rest, |(host, _)| host);
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// A message of the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The same however often it is sent.
    pub id: DeliveryId,
    /// Where to.
    pub url: Arc<str>,
    /// Whether an admin named the address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_admin: bool,
    /// What it says.
    pub news: JobNews,
    /// How often it was sent in vain.
    pub n_attempts: u32,
    /// Why the last time was in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Arc<str>>,
    /// When it is sent next, or, once given up, when that was.
    pub due: Timestamp,
    /// It is not sent again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

/// Names a message to whoever gets it.
pub type DeliveryId = Arc<str>;

impl Delivery {
    /// How long is waited after each vain attempt; after as many it is given up. A little more
    /// than a day together.
    pub const WAITS: [Millis; 11] = [
        Millis::from_secs(5),
        Millis::from_secs(30),
        Millis::from_secs(120),
        Millis::from_secs(600),
        Millis::from_secs(1800),
        Millis::from_hours(1),
        Millis::from_hours(2),
        Millis::from_hours(4),
        Millis::from_hours(5),
        Millis::from_hours(6),
        Millis::from_hours(6),
    ];

    /// The user that is told.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.news.owner.uid
    }

    /// Where it goes, without what may be a secret.
    #[must_use]
    pub fn origin(&self) -> &str {
        origin_of(&self.url)
    }

    /// The name of what is told of a job, the `nth` address that it is told.
    #[must_use]
    pub fn id_of(news: &JobNews, nth: usize) -> DeliveryId {
        let JobNews { job, attempt, state, at, .. } = news;
        Arc::from(format!("msg_{job}_{attempt}_{state}_{}_{nth}", at.get()))
    }
}

/// What became of a job, without anything that its owner may want to keep to himself but its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobNews {
    /// Which job.
    pub job: JobId,
    /// Which run.
    pub attempt: Attempt,
    /// The state that it came into.
    pub state: JobState,
    /// When it did.
    pub at: Timestamp,
    /// What people call it.
    pub name: Arc<str>,
    /// Whose it is.
    pub owner: Owner,
    /// Who is charged.
    pub project: ProjectName,
    /// The GPUs that it asked for.
    pub gpus: Arc<str>,
    /// Where it runs or ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<crate::id::NodeName>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When it started, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Its exit code as a shell gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// What became of an attempt to send a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Sent {
    /// It was taken.
    Taken,
    /// It was not; it is tried again.
    Failed {
        /// What happened, for people.
        why: Arc<str>,
    },
    /// Its host did not answer, so it would answer no other message either; it is tried again.
    Unanswered {
        /// What happened, for people.
        why: Arc<str>,
    },
    /// It was not, and never will be.
    Refused {
        /// What happened, for people.
        why: Arc<str>,
    },
}

/// What became of all messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeliveryCounts {
    /// Taken by whom they were for.
    pub n_taken: u64,
    /// Given up after many attempts, or refused.
    pub n_given_up: u64,
    /// Never tried, because too many were waiting.
    pub n_dropped: u64,
}

impl DeliveryCounts {
    /// Whether nothing was ever to be told.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}
