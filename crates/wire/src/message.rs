//! The body of a message: the news about a job, or about a project or user.

use gpool_model::Timestamp;
use gpool_model::job::JobState;
use gpool_model::notify::{Delivery, JobNews, Late, News};
use gpool_model::payer_news::PayerEvent;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::digest::{Digest, MessageBudget};
use crate::gpu::xid::JobXid;
use crate::job::Usage;
use crate::node_use::NodeUse;
use crate::time::{Time, seconds};

/// The body of a notification request.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Message {
    /// Always `gpool/v1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// ID of the message, as in the header `webhook-id`. All attempts to send it use the same ID.
    pub id: String,
    /// Type of the message: `job.` and the new state of the job, or an event in place of it, for
    /// example `job.idle`; `budget.reached`; `digest.weekly`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time of the event.
    pub timestamp: Time,
    /// Number of the attempt to send the message, from 1.
    pub attempt: u32,
    /// The job, the state of a budget, or the digest of a week.
    pub data: MessageData,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum MessageData {
    /// A job, in messages of the types `job.…`.
    Job(Box<MessageJob>),
    /// A budget, in messages of the type `budget.reached`.
    Budget(MessageBudget),
    /// A digest, in messages of the type `digest.weekly`.
    Digest(Box<Digest>),
}

impl From<&News> for MessageData {
    fn from(news: &News) -> Self {
        match news {
            News::Job(news) => Self::Job(Box::new((&**news).into())),
            News::Payer(news) => match &news.event {
                PayerEvent::Budget(reached) => Self::Budget(reached.into()),
                PayerEvent::Digest(digest) => Self::Digest(Box::new((&**digest).into())),
            },
        }
    }
}

/// A job in a message. It contains no command, environment or paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageJob {
    /// ID of the job.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// User that owns the job.
    pub user: String,
    /// Project that is charged.
    pub project: String,
    /// New state of the job.
    #[schema(schema_with = crate::schema::job_state)]
    pub state: JobState,
    /// Number of the job's attempt, from 1.
    pub attempt: u32,
    /// Requested GPUs.
    pub gpus: String,
    /// Nodes of the job's tasks.
    pub nodes: Vec<String>,
    /// Time of submission.
    pub submitted_at: Time,
    /// Time at which the job started.
    pub started_at: Option<Time>,
    /// Time at which the job ended.
    pub ended_at: Option<Time>,
    /// Run time in seconds.
    pub ran_s: Option<f64>,
    /// Exit code, or 128 + the number of the signal that ended the job.
    pub exit_code: Option<i32>,
    /// What the job used, if it has run and ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The use of its GPUs on each node, if it has ended and the use was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_use: Vec<NodeUse>,
    /// Xids, the driver's error reports, of its GPUs while it had them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<JobXid>,
    /// Time since which the job has not used its GPUs, in a `job.idle` message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Time>,
    /// GPU memory of one device that the job used, in bytes, in a `job.over_limit` message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_used: Option<u64>,
    /// GPU memory of that device that the job may use, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_limit: Option<u64>,
    /// Time limit in seconds, in a `job.near_limit` message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<f64>,
    /// Time left until the limit in seconds, in a `job.near_limit` message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left_s: Option<f64>,
    /// The forecast that the job missed, in a `job.late` message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<MessageLate>,
}

/// A forecast that a pending job missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageLate {
    /// Time at which the forecast was made.
    pub forecast_at: Time,
    /// 90th percentile of the start in that forecast.
    pub forecast_p90: Time,
    /// Why the job waits now. May change.
    pub reason: Option<String>,
    /// Median of the start in the present forecast.
    pub new_p50: Option<Time>,
    /// 90th percentile of the start in the present forecast.
    pub new_p90: Option<Time>,
}

impl From<&Late> for MessageLate {
    fn from(late: &Late) -> Self {
        Self {
            forecast_at: Time(late.made_at),
            forecast_p90: Time(late.p90),
            reason: late.reason.as_deref().map(str::to_owned),
            new_p50: late.new_p50.map(Time),
            new_p90: late.new_p90.map(Time),
        }
    }
}

impl From<&Delivery> for Message {
    fn from(delivery: &Delivery) -> Self {
        Self {
            api_version: crate::API_VERSION.to_owned(),
            id: delivery.id.to_string(),
            kind: kind(&delivery.news),
            timestamp: delivery.news.at().into(),
            attempt: delivery.n_attempts.saturating_add(1),
            data: MessageData::from(&delivery.news),
        }
    }
}

/// Returns the type of a message.
pub(crate) fn kind(news: &News) -> String {
    match news {
        News::Job(news) => format!("job.{}", news.what()),
        News::Payer(news) => match &news.event {
            PayerEvent::Budget(_) => "budget.reached".to_owned(),
            PayerEvent::Digest(_) => "digest.weekly".to_owned(),
        },
    }
}

impl From<&JobNews> for MessageJob {
    fn from(news: &JobNews) -> Self {
        let ran = |start: Timestamp| news.ended_at.map(|end| seconds(end.since(start)));
        Self {
            id: news.job.to_string(),
            name: news.name.to_string(),
            user: news.owner.user.to_string(),
            project: news.project.to_string(),
            state: news.state,
            attempt: news.attempt.0,
            gpus: news.gpus.to_string(),
            nodes: news.nodes.iter().map(ToString::to_string).collect(),
            submitted_at: news.submitted_at.into(),
            started_at: news.started_at.map(Time),
            ended_at: news.ended_at.map(Time),
            ran_s: news.started_at.and_then(ran),
            exit_code: news.exit_code,
            usage: news.usage.map(Usage::from),
            gpu_use: Vec::new(),
            xids: news.xids.iter().map(JobXid::from).collect(),
            idle_since: news.idle_since.map(Time),
            gpu_memory_used: news.over_memory.map(|memory| memory.used.get()),
            gpu_memory_limit: news.over_memory.map(|memory| memory.limit.get()),
            time_limit_s: news.near_limit.map(|near| seconds(near.limit)),
            time_left_s: news.near_limit.map(|near| seconds(near.left)),
            late: news.late.as_deref().map(MessageLate::from),
        }
    }
}
