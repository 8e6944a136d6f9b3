//! Notifications to users' own programs: rules, and the outbox in the API.
//! docs/using/notifications.md describes the signatures. The server sends the messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::Refusal;
use gpool_model::escape::{is_unprintable, repeated};
use gpool_model::notify::{Delivery, News, NotifyOn, NotifyRule, origin_of};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::message::kind;
use crate::time::Time;
use gpool_texts::words::nearest;

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

/// The kinds of objects that notifications are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotifySubject {
    Jobs,
    Payers,
}

impl NotifySubject {
    fn events(self) -> &'static [(&'static str, NotifyOn)] {
        match self {
            Self::Jobs => &NotifyOn::ALL,
            Self::Payers => &NotifyOn::OF_PAYERS,
        }
    }

    /// Words that stand for several events.
    fn groups(self) -> &'static [&'static str] {
        match self {
            Self::Jobs => &["end", "all"],
            Self::Payers => &["all"],
        }
    }

    /// Valid events, for examples.
    fn example(self) -> &'static str {
        match self {
            Self::Jobs => "done,fail",
            Self::Payers => "budget,digest",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Jobs => "of jobs",
            Self::Payers => "of projects and users",
        }
    }
}

/// Reads rules of a job: `done,fail@https://host/path`. Merges rules for the same address; `none`
/// returns no rules.
///
/// # Errors
/// [`Refusal::Invalid`] with the error and a valid example.
pub fn rules(written: &[String]) -> Result<Vec<NotifyRule>, Refusal> {
    read(NotifySubject::Jobs, written)
}

/// Reads rules of a project or user: `budget,digest@https://host/path`, as [`rules`].
///
/// # Errors
/// [`Refusal::Invalid`] with the error and a valid example.
pub fn payer_rules(written: &[String]) -> Result<Vec<NotifyRule>, Refusal> {
    read(NotifySubject::Payers, written)
}

/// Whether a text begins with an event of projects and users, as a rule does and hardly a name.
#[must_use]
pub fn is_payer_rule(text: &str) -> bool {
    let events = text.split('@').next().unwrap_or_default();
    let is_event = |word: &str| {
        let mut known = NotifyOn::OF_PAYERS.iter().chain(&NotifyOn::ALL).map(|(word, _)| *word);
        known.any(|it| it == word) || word == "all"
    };
    text == NOBODY || text.contains(':') || events.split(',').any(is_event)
}

fn read(of: NotifySubject, written: &[String]) -> Result<Vec<NotifyRule>, Refusal> {
    if written.iter().any(|rule| rule == NOBODY) {
        return match written.len() {
            1 => Ok(Vec::new()),
            _ => Err(invalid("none can't be combined with addresses")),
        };
    }
    let mut rules: Vec<NotifyRule> = Vec::new();
    for text in written {
        let rule = rule(of, text)?;
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

fn rule(of: NotifySubject, text: &str) -> Result<NotifyRule, Refusal> {
    let (events, url) = text.split_once('@').ok_or_else(|| {
        let (text, example) = (repeated(text), of.example());
        invalid(&format!("{text:?} has no address; write {example}@https://host/path"))
    })?;
    let mut on = BTreeSet::new();
    for word in events.split(',').map(str::trim) {
        on.extend(events_of(of, word)?);
    }
    check_url(url)?;
    Ok(NotifyRule { on, url: Arc::from(url), by_admin: false })
}

/// Returns the events that a word stands for.
fn events_of(of: NotifySubject, word: &str) -> Result<Vec<NotifyOn>, Refusal> {
    let all = of.events();
    match word {
        "all" => return Ok(all.iter().map(|(_, on)| *on).collect()),
        "end" if of == NotifySubject::Jobs => {
            return Ok(vec![NotifyOn::Done, NotifyOn::Fail, NotifyOn::Cancel]);
        }
        _ => {}
    }
    if let Some((_, on)) = all.iter().find(|(known, _)| *known == word) {
        return Ok(vec![*on]);
    }
    let words = all.iter().map(|(word, _)| word).chain(of.groups()).copied();
    let words: Vec<&str> = words.collect();
    let near = nearest(word, words.iter().copied()).unwrap_or(of.example());
    Err(invalid(&format!(
        "{:?} is not an event {}; these are {}; write {near}@https://host/path",
        repeated(word),
        of.name(),
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
pub fn rule_text(rule: &NotifyRule) -> String {
    let words: Vec<&str> = rule.on.iter().map(|on| on.as_str()).collect();
    let origin = origin_of(&rule.url);
    let rest = if origin.len() < rule.url.len() { "/…" } else { "" };
    format!("{}@{origin}{rest}", words.join(","))
}

/// A message in the outbox: waiting to be sent, or recently given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Notification {
    /// ID of the message.
    pub id: String,
    /// ID of the job; empty if the message is about a project or user.
    pub job: String,
    /// The project or user that the message is about: `project nlp`. Absent if it is about a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer: Option<String>,
    /// User that owns the job, or that set the address.
    pub user: String,
    /// Type of the message: `job.` and the new state of the job, or an event in place of it, for
    /// example `job.idle`; `budget.reached`; `digest.weekly`.
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
        let due = Time(delivery.due_at);
        let payer = match news {
            News::Job(_) => None,
            News::Payer(news) => Some(news.payer.to_string()),
        };
        Self {
            id: delivery.id.to_string(),
            job: news.job().map(|news| news.job.to_string()).unwrap_or_default(),
            payer,
            user: news.owner().user.to_string(),
            kind: kind(news),
            at: news.at().into(),
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
