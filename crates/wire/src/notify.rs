//! Notifications about jobs to users' own programs: rules, messages, and the outbox in the API.
//! docs/using/notifications.md describes the signatures. The server sends the messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::escape::{is_unprintable, repeated};
use gpool_model::job::JobState;
use gpool_model::notify::{Delivery, JobNews, Late, NotifyOn, NotifyRule, origin_of};
use gpool_model::{Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Usage;
use crate::json::nearest;
use crate::node_use::NodeUse;
use crate::schema;
use crate::time::Time;
use crate::time::seconds;

/// Maximum number of characters in an address.
const URL_MAX: usize = 2048;
/// Maximum number of addresses of one job.
const RULES_MAX: usize = 8;
/// Prefix of a mail address.
pub const MAILTO: &str = "mailto:";
/// Prefix of an address that takes messages for people, as Slack's incoming webhooks do.
pub const CHAT: &str = "slack+";
/// Replaces all rules: no notifications, not even the default ones.
pub const NOBODY: &str = "none";

/// The header with the ID of a message. All attempts to send it use the same ID.
pub const ID_HEADER: &str = "webhook-id";
/// The header with the time of sending, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header with the signatures of the message.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// Reads rules: `done,fail@https://host/path`. Merges rules for the same address; `none` returns no
/// rules.
///
/// # Errors
/// [`Refusal::Invalid`] with the error and a valid example.
pub fn rules(written: &[String]) -> Result<Vec<NotifyRule>, Refusal> {
    if written.iter().any(|rule| rule == NOBODY) {
        return match written.len() {
            1 => Ok(Vec::new()),
            _ => Err(invalid("none can't be combined with addresses")),
        };
    }
    let mut rules: Vec<NotifyRule> = Vec::new();
    for text in written {
        let rule = rule(text)?;
        match rules.iter_mut().find(|known| known.url == rule.url) {
            Some(known) => known.on.extend(rule.on),
            None => rules.push(rule),
        }
    }
    if rules.len() > RULES_MAX {
        let why = format!("it has {} addresses; the maximum is {RULES_MAX}", rules.len());
        return Err(invalid(&why));
    }
    Ok(rules)
}

fn rule(text: &str) -> Result<NotifyRule, Refusal> {
    let (events, url) = text.split_once('@').ok_or_else(|| {
        let why = format!("{:?} has no address; write done,fail@https://host/path", repeated(text));
        invalid(&why)
    })?;
    let mut on = BTreeSet::new();
    for word in events.split(',').map(str::trim) {
        on.extend(events_of(word)?);
    }
    check_url(url)?;
    Ok(NotifyRule { on, url: Arc::from(url), by_admin: false })
}

/// Returns the events that a word stands for.
fn events_of(word: &str) -> Result<Vec<NotifyOn>, Refusal> {
    let all = NotifyOn::ALL;
    match word {
        "all" => return Ok(all.map(|(_, on)| on).to_vec()),
        "end" => return Ok(vec![NotifyOn::Done, NotifyOn::Fail, NotifyOn::Cancel]),
        _ => {}
    }
    if let Some((_, on)) = all.iter().find(|(known, _)| *known == word) {
        return Ok(vec![*on]);
    }
    let words: Vec<&str> = all.iter().map(|(word, _)| *word).chain(["end", "all"]).collect();
    let near = nearest(word, words.iter().copied()).unwrap_or("done");
    Err(invalid(&format!(
        "{:?} is not an event for notifications; these are {}; write {near}@https://host/path",
        repeated(word),
        words.join(", ")
    )))
}

/// Whether the server can send mail to an address: letters, digits and `._+-=~` before the `@`, a
/// host name after it, and neither part begins with a `-`. This is stricter than the standard, so
/// that no program or header can misread an address.
#[must_use]
pub fn is_mail_address(address: &str) -> bool {
    const LOCAL_MAX: usize = 64;
    const ALL_MAX: usize = 254;
    let Some((local, host)) = address.split_once('@') else { return false };
    let is_local = |c: char| c.is_ascii_alphanumeric() || "._+-=~".contains(c);
    let is_atom = |atom: &str| !atom.is_empty() && atom.chars().all(is_local);
    let is_label = |label: &str| {
        let is_known = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_short = (1..=63).contains(&label.len());
        is_short && label.chars().all(is_known) && !label.starts_with('-') && !label.ends_with('-')
    };
    address.len() <= ALL_MAX
        && local.len() <= LOCAL_MAX
        && !local.starts_with('-')
        && local.split('.').all(is_atom)
        && host.split('.').all(is_label)
}

/// Checks an address for messages.
fn check_url(url: &str) -> Result<(), Refusal> {
    if let Some(address) = url.strip_prefix(MAILTO) {
        let why =
            format!("{:?} is not a mail address; write mailto:ana@example.org", repeated(address));
        return if is_mail_address(address) { Ok(()) } else { Err(invalid(&why)) };
    }
    let bad = |why: &str| {
        // The message omits the path, which may be secret.
        Err(invalid(&format!("{:?} {why}", repeated(origin_of(url)))))
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return bad("is not an address; write https://host/path or mailto:ana@example.org");
    };
    if !matches!(scheme.strip_prefix(CHAT).unwrap_or(scheme), "http" | "https") {
        return bad(
            "does not begin with http or https; write https://host/path or mailto:ana@example.org",
        );
    }
    if url.chars().count() > URL_MAX {
        return bad(&format!(
            "begins an address of more than {URL_MAX} characters; use a shorter one"
        ));
    }
    if url.chars().any(|c| is_unprintable(c) || c.is_whitespace() || !c.is_ascii()) {
        return bad("begins an address with blanks or characters outside ASCII; encode them");
    }
    if url.contains('#') {
        return bad("has a fragment (#…), which is never sent; leave it out");
    }
    let host = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    if host.contains('@') {
        return bad("contains a user or password; put secrets into the path");
    }
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, port)) => (address, Some(port.strip_prefix(':').unwrap_or("?"))),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return bad("has no host; write https://host/path");
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return bad("has an invalid port; write https://host:8443/path");
    }
    Ok(())
}

fn invalid(why: &str) -> Refusal {
    Refusal::Invalid { field: "notify".to_owned(), why: why.to_owned() }
}

/// Formats a rule without its path, which may be secret.
#[must_use]
pub fn shown(rule: &NotifyRule) -> String {
    let words: Vec<&str> = rule.on.iter().map(|on| on.as_str()).collect();
    let origin = origin_of(&rule.url);
    let rest = if origin.len() < rule.url.len() { "/…" } else { "" };
    format!("{}@{origin}{rest}", words.join(","))
}

/// The body of a notification request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Always `gpool/v1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// ID of the message, as in the header `webhook-id`. All attempts to send it use the same ID.
    pub id: String,
    /// Type of the message: `job.` and the new state of the job, or an event in place of it, for
    /// example `job.idle`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time of the event.
    pub timestamp: Time,
    /// Number of the attempt to send the message, from 1.
    pub attempt: u32,
    /// The job.
    pub data: MessageJob,
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
    #[schema(schema_with = schema::job_state)]
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
        let news = &delivery.news;
        Self {
            api_version: crate::API_VERSION.to_owned(),
            id: delivery.id.to_string(),
            kind: kind(news),
            timestamp: news.at.into(),
            attempt: delivery.n_attempts.saturating_add(1),
            data: MessageJob::from(news),
        }
    }
}

fn kind(news: &JobNews) -> String {
    format!("job.{}", news.what())
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
            idle_since: news.idle_since.map(Time),
            gpu_memory_used: news.over_memory.map(|memory| memory.used.get()),
            gpu_memory_limit: news.over_memory.map(|memory| memory.limit.get()),
            time_limit_s: news.near_limit.map(|near| seconds(near.limit)),
            time_left_s: news.near_limit.map(|near| seconds(near.left)),
            late: news.late.as_deref().map(MessageLate::from),
        }
    }
}

/// A message in the outbox: waiting to be sent, or recently given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Notification {
    /// ID of the message.
    pub id: String,
    /// ID of the job.
    pub job: String,
    /// User that owns the job.
    pub user: String,
    /// Type of the message: `job.` and the new state of the job, or an event in place of it, for
    /// example `job.idle`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time of the event.
    pub at: Time,
    /// Address without its path.
    pub to: String,
    /// Number of failed attempts.
    pub n_attempts: u32,
    /// Why the last attempt failed.
    pub why: Option<String>,
    /// Time of the next attempt. `null` after the server gave up.
    pub next_at: Option<Time>,
    /// Time at which the server gave up.
    pub given_up_at: Option<Time>,
}

impl From<&Delivery> for Notification {
    fn from(delivery: &Delivery) -> Self {
        let news = &delivery.news;
        let due = Time(delivery.due);
        Self {
            id: delivery.id.to_string(),
            job: news.job.to_string(),
            user: news.owner.user.to_string(),
            kind: kind(news),
            at: news.at.into(),
            to: delivery.origin().to_owned(),
            n_attempts: delivery.n_attempts,
            why: delivery.why.as_deref().map(str::to_owned),
            next_at: (!delivery.given_up).then_some(due),
            given_up_at: delivery.given_up.then_some(due),
        }
    }
}

/// The key for the signatures of a user's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifySecret {
    /// `whsec_` and 32 bytes in base64.
    pub secret: String,
}

/// Counts of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct NotifyCounts {
    /// Number of messages to send.
    pub waiting: u64,
    /// Number of delivered messages.
    pub taken: u64,
    /// Number of messages given up after many attempts, or refused by the receiver.
    pub given_up: u64,
    /// Number of messages that were never sent, because too many were waiting.
    pub dropped: u64,
}
