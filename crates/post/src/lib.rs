//! Sends messages of the outbox, once for each order of the state machine, and reports the result.
//! The state machine decides when and how often. A receiver that hangs blocks only its own thread.

#![forbid(unsafe_code)]

mod address;
mod failure;
mod mail;
mod relay;
mod sign;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpool_model::notify::{Delivery, DeliveryId, JobNews, Sent};
use gpool_wire::notify::{CHAT, ID_HEADER, MAILTO, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use gpool_wire::{Message, MessageData, NodeUse};
use ureq::Agent;
use ureq::unversioned::transport::DefaultConnector;

use gpool_identity::outbound;

use gpool_insight::usage::{UsageHistory, nodes};

use failure::{failed, short};

#[cfg(feature = "fuzzing")]
pub use address::Guarded;
pub use address::check;
pub use address::{Allowed, BadAllowed};
pub use mail::MailSettings;
pub use relay::{BadRelay, Relay};
pub use sign::{KEY_FILE, Keys};

#[derive(Debug, Clone, Default)]
pub struct NotifySettings {
    /// Addresses inside the server's machine and its network that users may name.
    pub allow: Vec<Allowed>,
    /// Notification rules of jobs that name none.
    pub usual: Vec<gpool_model::NotifyRule>,
    pub mail: MailSettings,
}

/// Called with the ID of each message and its result.
pub type OnSent = Arc<dyn Fn(DeliveryId, Sent) + Send + Sync>;

/// Sends messages, each on a thread of its own.
pub struct Post {
    keys: Arc<Keys>,
    /// The HTTP clients for users and for admins; admins may name any address.
    agents: [Agent; 2],
    mail: Arc<MailSettings>,
    usage: Arc<UsageHistory>,
    n_under_way: Arc<AtomicUsize>,
    on_sent: OnSent,
}

/// Counts a message as under way for as long as it lives.
struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Post {
    /// Time limit of one delivery, from resolving the name to the answer.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// The state machine sends far fewer at once. After a failed commit it may not know of those
    /// that were under way before.
    const UNDER_WAY_MAX: usize = 64;

    /// One that reports the result of each message by `on_sent`.
    pub fn new(
        keys: Arc<Keys>,
        settings: &NotifySettings,
        usage: Arc<UsageHistory>,
        on_sent: OnSent,
    ) -> Self {
        let agent = |allow| {
            let resolver = address::Guarded::new(allow);
            Agent::with_parts(
                outbound::config(Self::PATIENCE),
                DefaultConnector::default(),
                resolver,
            )
        };
        let agents = [agent(Some(settings.allow.clone())), agent(None)];
        let mail = Arc::new(settings.mail.clone());
        Self { keys, agents, mail, usage, n_under_way: Arc::default(), on_sent }
    }

    /// Sends a message, and reports its result later.
    pub fn send(&self, delivery: Delivery) {
        let under_way = UnderWay(Arc::clone(&self.n_under_way));
        let id = Arc::clone(&delivery.id);
        let answer = {
            let (on_sent, id) = (Arc::clone(&self.on_sent), Arc::clone(&id));
            move |sent| on_sent(id, sent)
        };
        if under_way.0.fetch_add(1, Ordering::Relaxed) >= Self::UNDER_WAY_MAX {
            return answer(failed("too many messages are being sent"));
        }
        let (keys, mail) = (Arc::clone(&self.keys), Arc::clone(&self.mail));
        let usage = Arc::clone(&self.usage);
        let agent = self.agents[usize::from(delivery.by_admin)].clone();
        let work = {
            let answer = answer.clone();
            move || {
                fail::fail_point!("server-post-before");
                let news = delivery.news.job();
                let gpu_use = news.map(|news| gpu_use(&usage, news)).unwrap_or_default();
                let sent = match delivery.url.strip_prefix(MAILTO) {
                    Some(to) => mail.send(&delivery, gpu_use, to, Self::PATIENCE),
                    None => post(&agent, &keys, &delivery, gpu_use),
                };
                fail::fail_point!("server-post-after");
                drop(under_way);
                answer(sent);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("post".to_owned()).spawn(work) {
            answer(failed(&format!("can't start a thread: {error}")));
        }
    }
}

/// The use of the GPUs of an ended job on each node. A message without it is better than none.
fn gpu_use(usage: &UsageHistory, news: &JobNews) -> Vec<NodeUse> {
    let range = news.ended_at.filter(|_| news.usage.is_some());
    let range = range.map(|ended_at| (news.submitted_at, ended_at));
    let found = range.map(|range| nodes::of_job(usage, &news.job.to_string(), range));
    found.and_then(Result::ok).unwrap_or_default()
}

fn post(agent: &Agent, keys: &Keys, delivery: &Delivery, gpu_use: Vec<NodeUse>) -> Sent {
    let (url, body) = match delivery.url.strip_prefix(CHAT) {
        Some(url) => (url, chat_text(&MessageData::from(&delivery.news))),
        None => {
            let mut message = Message::from(delivery);
            if let MessageData::Job(job) = &mut message.data {
                job.gpu_use = gpu_use;
            }
            let body = serde_json::to_vec(&message);
            (&*delivery.url, body.expect("messages are plain data"))
        }
    };
    let timestamp = (now().get() / 1000).to_string();
    let signature = keys.sign(delivery.uid(), &delivery.id, &timestamp, &body);
    let answer = agent
        .post(url)
        .header("content-type", "application/json")
        .header(ID_HEADER, &*delivery.id)
        .header(TIMESTAMP_HEADER, &timestamp)
        .header(SIGNATURE_HEADER, &signature)
        .send(&body[..]);
    // Only the status of the answer is read.
    match answer.map(|answer| answer.status().as_u16()) {
        Ok(200..=299) => Sent::Taken,
        Ok(410) => {
            Sent::Refused { why: Arc::from("it answers 410 (gone): no more messages are sent") }
        }
        Ok(status @ 300..=399) => {
            failed(&format!("it answers {status}, and gpool does not follow redirects"))
        }
        Ok(status) => failed(&format!("it answers {status}")),
        Err(error) => not_sent(&error),
    }
}

/// The news as a message of a chat.
///
/// Source: Slack, "Sending messages using incoming webhooks" and "Formatting text": these three
/// characters are escaped, so that a job's name mentions no group.
pub fn chat_text(data: &MessageData) -> Vec<u8> {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text = match data {
        MessageData::Job(job) => {
            let text = escaped(&mail::subject(job));
            let advice = mail::advice(job).map(|it| format!(" · {it}")).unwrap_or_default();
            format!("{text} · {} · project {} · {} GPUs{advice}", job.user, job.project, job.gpus)
        }
        MessageData::Budget(budget) => escaped(&format!("gpool: {}", budget.headline())),
        MessageData::Digest(digest) => escaped(&format!("gpool: {}", digest.headline())),
    };
    serde_json::json!({ "text": text }).to_string().into_bytes()
}

fn not_sent(error: &ureq::Error) -> Sent {
    match error {
        ureq::Error::Io(io) if io.kind() == ErrorKind::PermissionDenied => {
            Sent::Refused { why: Arc::from(io.to_string()) }
        }
        ureq::Error::Timeout(_) => {
            let why = format!("no answer within {} s", Post::PATIENCE.as_secs());
            Sent::Unanswered { why: Arc::from(why) }
        }
        ureq::Error::HostNotFound => {
            Sent::Unanswered { why: Arc::from("the host name is unknown") }
        }
        ureq::Error::Io(_) | ureq::Error::ConnectionFailed => {
            Sent::Unanswered { why: short(&error.to_string()) }
        }
        error => failed(&error.to_string()),
    }
}

fn now() -> gpool_model::Timestamp {
    gpool_model::Timestamp::new(gpool_sys::clock::unix_ms())
}
