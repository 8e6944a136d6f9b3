//! Messages to people's own programs about their jobs: how they are asked for, what they say, and
//! how those that are still to be sent are shown. How they are signed is said in
//! docs/using/notifications.md; sending is the server's.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::job::JobState;
use gpool_model::notify::{Delivery, JobNews, NotifyOn, NotifyRule, origin_of};
use gpool_model::said::{is_unprintable, repeated};
use gpool_model::{Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::nearest;
use crate::schema;
use crate::time::Time;
use crate::time::seconds;

/// Characters of an address.
const URL_MAX: usize = 2048;
/// Addresses that one job is told of to.
const RULES_MAX: usize = 8;
/// What a mail address begins with.
pub const MAILTO: &str = "mailto:";
/// In place of a rule: nobody is told, whatever is usual.
pub const NOBODY: &str = "none";

/// The header with the id of a message, the same however often it is sent.
pub const ID_HEADER: &str = "webhook-id";
/// The header with the moment at which it was sent, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header with its signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// Reads rules as they are written: `done,fail@https://host/path`. Rules for the same address
/// become one; `none` alone is no rule.
///
/// # Errors
/// [`Refusal::Invalid`] with what is wrong, and an example of what is right.
pub fn rules(written: &[String]) -> Result<Vec<NotifyRule>, Refusal> {
    if written.iter().any(|rule| rule == NOBODY) {
        return match written.len() {
            1 => Ok(Vec::new()),
            _ => Err(invalid("none stands alone: it is nobody who is told")),
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
        let why = format!("it names {} addresses, and {RULES_MAX} are the most", rules.len());
        return Err(invalid(&why));
    }
    Ok(rules)
}

fn rule(text: &str) -> Result<NotifyRule, Refusal> {
    let (events, url) = text.split_once('@').ok_or_else(|| {
        let why =
            format!("{:?} names no address; write done,fail@https://host/path", repeated(text));
        invalid(&why)
    })?;
    let mut on = BTreeSet::new();
    for word in events.split(',').map(str::trim) {
        on.extend(events_of(word)?);
    }
    check_url(url)?;
    Ok(NotifyRule { on, url: Arc::from(url), by_admin: false })
}

/// What a word asks to be told.
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
        "{:?} is nothing that is told; there are {}; write {near}@https://host/path",
        repeated(word),
        words.join(", ")
    )))
}

/// Whether mail can be sent to an address: letters, digits and `._+-=~` before the `@`, the name of
/// a host after it, and neither begins with a `-`. Fewer than there may be, and none that a program
/// or a header could read otherwise.
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

/// An address that a message can be sent to.
fn check_url(url: &str) -> Result<(), Refusal> {
    if let Some(address) = url.strip_prefix(MAILTO) {
        let why =
            format!("{:?} is no mail address; write mailto:ana@example.org", repeated(address));
        return if is_mail_address(address) { Ok(()) } else { Err(invalid(&why)) };
    }
    let bad = |why: &str| {
        // The path may be a secret.
        Err(invalid(&format!("{:?} {why}", repeated(origin_of(url)))))
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return bad("is no address; write https://host/path or mailto:ana@example.org");
    };
    if !matches!(scheme, "http" | "https") {
        return bad(
            "has another scheme than http and https; write https://host/path or mailto:ana@example.org",
        );
    }
    if url.chars().count() > URL_MAX {
        return bad(&format!("and what follows is longer than {URL_MAX} characters"));
    }
    if url.chars().any(|c| is_unprintable(c) || c.is_whitespace() || !c.is_ascii()) {
        return bad("or what follows holds blanks or characters that are not ASCII; encode them");
    }
    if url.contains('#') {
        return bad("is followed by a fragment (#…), which is never sent; leave it out");
    }
    let host = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    if host.contains('@') {
        return bad("holds a user or password; put what is secret into the path");
    }
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, port)) => (address, Some(port.strip_prefix(':').unwrap_or("?"))),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return bad("names no host; write https://host/path");
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return bad("has no port that there is; write https://host:8443/path");
    }
    Ok(())
}

fn invalid(why: &str) -> Refusal {
    Refusal::Invalid { field: "notify".to_owned(), why: why.to_owned() }
}

/// A rule as it is shown: without the path, which may be a secret.
#[must_use]
pub fn shown(rule: &NotifyRule) -> String {
    let words: Vec<&str> = rule.on.iter().map(|on| on.as_str()).collect();
    let origin = origin_of(&rule.url);
    let rest = if origin.len() < rule.url.len() { "/…" } else { "" };
    format!("{}@{origin}{rest}", words.join(","))
}

/// What is sent: the body of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Always `gpool/v1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// The same however often it is sent; as in the header `webhook-id`.
    pub id: String,
    /// What happened: `job.` and the state that the job came into.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happened.
    pub timestamp: Time,
    /// The how manieth attempt to send it this is, from 1.
    pub attempt: u32,
    /// What became of the job.
    pub data: MessageJob,
}

/// A job as a message tells of it: no command, no environment, no paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageJob {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Who is charged.
    pub project: String,
    /// The state that it came into.
    #[schema(schema_with = schema::job_state)]
    pub state: JobState,
    /// Which run it is, from 1.
    pub attempt: u32,
    /// The GPUs that it asked for.
    pub gpus: String,
    /// Where it runs or ran.
    pub nodes: Vec<String>,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When it started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Seconds that it ran.
    pub ran_s: Option<f64>,
    /// Its exit code, or 128 + the signal that ended it.
    pub exit_code: Option<i32>,
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
    format!("job.{}", news.state)
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
        }
    }
}

/// A message of the outbox as the API shows it: still to be sent, or given up not long ago.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Notification {
    /// Its id.
    pub id: String,
    /// The job that it is about.
    pub job: String,
    /// Whose job.
    pub user: String,
    /// What it tells: `job.` and the state that the job came into.
    #[serde(rename = "type")]
    pub kind: String,
    /// When that was.
    pub at: Time,
    /// Where to, without the path.
    pub to: String,
    /// How often it was sent in vain.
    pub n_attempts: u32,
    /// Why the last time was in vain.
    pub why: Option<String>,
    /// When it is sent next; `null` once given up.
    pub next_at: Option<Time>,
    /// When it was given up.
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

/// The key by which the receiver of a user's messages knows that they are the server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifySecret {
    /// `whsec_` and 32 bytes in base64.
    pub secret: String,
}

/// What is known of all messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct NotifyCounts {
    /// Still to be sent.
    pub waiting: u64,
    /// Taken by whom they were for.
    pub taken: u64,
    /// Given up after many attempts, or refused.
    pub given_up: u64,
    /// Never tried, because too many were waiting.
    pub dropped: u64,
}
