//! Notifications about jobs, projects and users, and the outbox of messages that wait to be sent.
//! Nothing here sends.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Attempt, JobId, ProjectName, Version};
use crate::job::end::Usage;
use crate::job::owner::Owner;
use crate::job::state::JobState;
use crate::over_limit::OverMemory;
use crate::payer_news::PayerNews;
use crate::unit::{Millis, Timestamp};
use crate::xid::JobXid;

/// An event of a job, project or user that can trigger a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyOn {
    /// It started to run.
    Start,
    /// It succeeded.
    Done,
    /// It failed, was lost, or reached its time limit.
    Fail,
    /// It reached its time limit.
    Timeout,
    /// A user cancelled it, or it could never start.
    Cancel,
    /// It is held.
    Hold,
    /// It does not use its GPUs, and the policy for idle jobs warns its owner.
    Idle,
    /// It uses more GPU memory than its limit, and the policy for such jobs warns its owner.
    OverLimit,
    /// It has used most of its time limit.
    NearLimit,
    /// It did not start by its first forecast.
    Late,
    /// The cost of a project or user reached a step of the budget of the month.
    Budget,
    /// A week of a project or user is over.
    Digest,
}

impl NotifyOn {
    /// Every event of a job with its name, in the order of a job's life.
    pub const ALL: [(&'static str, Self); 10] = [
        ("hold", Self::Hold),
        ("late", Self::Late),
        ("start", Self::Start),
        ("idle", Self::Idle),
        ("over_limit", Self::OverLimit),
        ("near_limit", Self::NearLimit),
        ("done", Self::Done),
        ("fail", Self::Fail),
        ("timeout", Self::Timeout),
        ("cancel", Self::Cancel),
    ];

    /// Every event of a project or user with its name.
    pub const OF_PAYERS: [(&'static str, Self); 2] =
        [("budget", Self::Budget), ("digest", Self::Digest)];

    /// Whether a job that enters this state triggers the notification.
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
            Self::Idle
            | Self::OverLimit
            | Self::NearLimit
            | Self::Late
            | Self::Budget
            | Self::Digest => false,
        }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let found = Self::ALL.iter().chain(&Self::OF_PAYERS).find(|(_, on)| *on == self);
        found.map_or("", |(word, _)| word)
    }
}

impl fmt::Display for NotifyOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An address for notifications about a job, project or user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NotifyRule {
    /// The events that trigger a notification.
    pub on: BTreeSet<NotifyOn>,
    /// The address, validated on input. The part after the host may be a secret.
    pub url: Arc<str>,
    /// Whether an admin named it; admins may name addresses inside the server's machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_admin: bool,
}

impl NotifyRule {
    /// Whether a job that enters this state triggers a notification.
    #[must_use]
    pub fn is_met_by(&self, state: JobState) -> bool {
        self.on.iter().any(|on| on.is_met_by(state))
    }
}

/// The scheme, host and port of an address. Messages are grouped by them, and only they are shown.
#[must_use]
pub fn origin_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// The host of an address in lower case, without scheme and port: addresses on the same host share
/// a limit on connections. All mail goes to the same program.
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
#[serde(try_from = "StoredDelivery", into = "StoredDelivery")]
pub struct Delivery {
    /// The ID of the message, the same each time it is sent.
    pub id: DeliveryId,
    /// The address.
    pub url: Arc<str>,
    /// Whether an admin named the address.
    pub by_admin: bool,
    /// The content.
    pub news: News,
    /// The number of failed attempts.
    pub n_attempts: u32,
    /// Why the last attempt failed.
    pub why: Option<Arc<str>>,
    /// The next attempt, or, once given up, the time of that.
    pub due_at: Timestamp,
    /// The server gave up: it is not sent again.
    pub given_up: bool,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The news about a job.
    Job(Box<JobNews>),
    /// The news about a project or user.
    Payer(Box<PayerNews>),
}

impl News {
    /// The user that the message counts for. The key of this user signs it.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        match self {
            Self::Job(news) => &news.owner,
            Self::Payer(news) => &news.owner,
        }
    }

    /// The time of the event.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Job(news) => news.at,
            Self::Payer(news) => news.at,
        }
    }

    /// The job, if the news is about one.
    #[must_use]
    pub fn job(&self) -> Option<&JobNews> {
        match self {
            Self::Job(news) => Some(news),
            Self::Payer(_) => None,
        }
    }
}

impl From<JobNews> for News {
    fn from(news: JobNews) -> Self {
        Self::Job(Box::new(news))
    }
}

impl From<PayerNews> for News {
    fn from(news: PayerNews) -> Self {
        Self::Payer(Box::new(news))
    }
}

/// The record of a message. The news about a job stands where it stood when there was no other.
#[derive(Clone, Serialize, Deserialize)]
struct StoredDelivery {
    id: DeliveryId,
    url: Arc<str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_admin: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    news: Option<Box<JobNews>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payer_news: Option<Box<PayerNews>>,
    n_attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<Arc<str>>,
    due: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    given_up: bool,
}

impl TryFrom<StoredDelivery> for Delivery {
    type Error = &'static str;

    fn try_from(stored: StoredDelivery) -> Result<Self, Self::Error> {
        let StoredDelivery { id, url, by_admin, news, payer_news, .. } = stored;
        let news = match (news, payer_news) {
            (Some(news), None) => News::Job(news),
            (None, Some(news)) => News::Payer(news),
            (None, None) | (Some(_), Some(_)) => return Err("a message has one content"),
        };
        let StoredDelivery { n_attempts, why, due: due_at, given_up, .. } = stored;
        Ok(Self { id, url, by_admin, news, n_attempts, why, due_at, given_up })
    }
}

impl From<Delivery> for StoredDelivery {
    fn from(delivery: Delivery) -> Self {
        let Delivery { id, url, by_admin, news, n_attempts, why, due_at, given_up } = delivery;
        let (news, payer_news) = match news {
            News::Job(news) => (Some(news), None),
            News::Payer(news) => (None, Some(news)),
        };
        Self { id, url, by_admin, news, payer_news, n_attempts, why, due: due_at, given_up }
    }
}

/// The ID of a message, for its receiver.
pub type DeliveryId = Arc<str>;

impl Delivery {
    /// The wait after each failed attempt; after the last the server gives up. The sum is a little
    /// more than a day.
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

    /// The user that owns the job, or that set the subscription.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.news.owner().uid
    }

    /// The receiver, without parts that may be secret.
    #[must_use]
    pub fn origin(&self) -> &str {
        origin_of(&self.url)
    }

    /// The ID of the message to the `nth` address of a job or subscription.
    #[must_use]
    pub fn id_of(news: &News, nth: usize) -> DeliveryId {
        let about = match news {
            News::Job(news) => {
                let JobNews { job, attempt, at, .. } = &**news;
                format!("{job}_{attempt}_{}_{}", news.what(), at.get())
            }
            News::Payer(news) => news.id(),
        };
        Arc::from(format!("msg_{about}_{nth}"))
    }
}

/// The news about a job. Of data that its owner may want to keep private it contains only the name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobNews {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// The new state.
    pub state: JobState,
    /// The time of the change.
    pub at: Timestamp,
    /// The name of the job.
    pub name: Arc<str>,
    /// The user that owns the job.
    pub owner: Owner,
    /// The project that is charged.
    pub project: ProjectName,
    /// The requested GPUs.
    pub gpus: Arc<str>,
    /// The nodes that it runs or ran on.
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
    /// Its exit code as a shell reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What it used, if it has run and ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The Xids that its devices reported while it had them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<JobXid>,
    /// Since when it has not used its GPUs, if that is the news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    /// The memory above its limit, if that is the news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_memory: Option<OverMemory>,
    /// Its time limit and the time left, if that is the news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_limit: Option<NearLimit>,
    /// The forecast that it missed, if that is the news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Box<Late>>,
}

/// A forecast that a pending job missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// When the forecast was made.
    pub made_at: Timestamp,
    /// Its p90: nine of ten jobs start by then.
    pub p90: Timestamp,
    /// Why the job waits now, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// The median of the present forecast, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_p50: Option<Timestamp>,
    /// The p90 of the present forecast, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_p90: Option<Timestamp>,
}

/// A pending job that missed its forecast, as the server reports it to the state machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateJob {
    /// The job.
    pub job: JobId,
    /// The version that the forecast is for: after an edit, it no longer counts.
    pub version: Version,
    /// The forecast.
    pub late: Late,
}

/// A time limit that a job has nearly used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearLimit {
    /// The limit.
    pub limit: Millis,
    /// The rest of it.
    pub left: Millis,
}

impl NearLimit {
    /// The run time after which the owner of a job is warned: 90 % of the limit.
    #[must_use]
    pub fn warns_after(limit: Millis) -> Millis {
        limit.saturating_sub(limit.div_floor(10))
    }
}

impl JobNews {
    /// The event in place of a new state, if there is one.
    #[must_use]
    pub fn instead(&self) -> Option<NotifyOn> {
        let over = self.over_memory.map(|_| NotifyOn::OverLimit);
        let near = self.near_limit.map(|_| NotifyOn::NearLimit);
        let late = self.late.as_ref().map(|_| NotifyOn::Late);
        over.or(self.idle_since.map(|_| NotifyOn::Idle)).or(near).or(late)
    }

    /// The name of the event, or of the new state.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.instead().map_or(self.state.as_str(), NotifyOn::as_str)
    }
}

/// The result of an attempt to send a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// It was accepted.
    Taken,
    /// It failed; the server tries again.
    Failed {
        /// The error, for people.
        why: Arc<str>,
    },
    /// Its host did not answer, so other messages to the host would fail too; the server tries
    /// again.
    Unanswered {
        /// The error, for people.
        why: Arc<str>,
    },
    /// It was rejected for good.
    Refused {
        /// The error, for people.
        why: Arc<str>,
    },
}

/// Counts of all messages by result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeliveryCounts {
    /// Accepted by the receiver.
    pub n_taken: u64,
    /// Given up after many attempts, or refused.
    pub n_given_up: u64,
    /// Never tried, because too many messages waited.
    pub n_dropped: u64,
}

impl DeliveryCounts {
    /// Whether there never was a message.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}
