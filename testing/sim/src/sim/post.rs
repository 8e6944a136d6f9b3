//! Notifications about jobs: messages under way, and received messages. A message must be durable
//! before it leaves, and each one must in the end be received, refused, or still in the outbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::job::JobState;
use gpool_model::notify::{Delivery, Sent};
use gpool_model::record::RecordKind;
use gpool_model::{Attempt, Event, JobId, NotifyOn, NotifyRule, Record, RecordKey};

use crate::broken::Invariant;
use crate::sim::{Sim, picked};

/// The content of a message about a job, for any receiver.
type News = (JobId, Attempt, JobState);

/// Messages, and whether they were received.
#[derive(Debug, Clone, Default)]
pub(crate) struct Post {
    pub under_way: Vec<Delivery>,
    /// Received or refused: need not be sent again.
    settled: BTreeSet<News>,
}

/// What a job of a user asks to be told. Every other user does.
pub(crate) fn rules(user: u64) -> Vec<NotifyRule> {
    let all: BTreeSet<NotifyOn> = NotifyOn::ALL.into_iter().map(|(_, on)| on).collect();
    let rule = |user: u64| NotifyRule {
        on: all.clone(),
        url: Arc::from(format!("http://host{user}/")),
        by_admin: false,
    };
    Some(user % 8).filter(|user| user % 2 == 1).map(rule).into_iter().collect()
}

fn news(delivery: &Delivery) -> News {
    let news = delivery.news.job().expect("simulated users subscribe to no project or user");
    (news.job, news.attempt, news.state)
}

impl Sim {
    /// A message leaves the server.
    pub(crate) fn post(&mut self, delivery: Delivery) {
        let key = RecordKey { kind: RecordKind::Delivery, key: delivery.id.to_string() };
        // What a server sent before a commit failed may be heard while it is sent again.
        let is_heard = self.post.settled.contains(&news(&delivery));
        if !is_heard && !self.store.records.contains_key(&key) {
            let what = format!("message {} is sent before its event is durable", delivery.id);
            self.blame(Invariant::TooEarly, what);
        }
        self.post.under_way.push(delivery);
    }

    /// A receiver accepts a message, does not answer, or refuses it for ever.
    pub(crate) fn receive(&mut self, pick: u64, becomes: u64) {
        let all: Vec<usize> = (0..self.post.under_way.len()).collect();
        let Some(at) = picked(&all, pick) else { return };
        let delivery = self.post.under_way.remove(at);
        let why = Arc::from("nobody answers");
        let sent = match becomes % 4 {
            0 | 1 => Sent::Taken,
            2 => Sent::Failed { why },
            _ => Sent::Refused { why },
        };
        if !matches!(sent, Sent::Failed { .. }) {
            self.post.settled.insert(news(&delivery));
        }
        self.tell_server(Event::Delivered { id: delivery.id, sent });
    }

    /// Checks that messages about ended jobs were received, or will be.
    pub(crate) fn check_post(&mut self) {
        let waits = |record: &Record| match record {
            Record::Delivery(delivery) => Some(news(delivery)),
            _ => None,
        };
        let waiting: BTreeSet<News> = self.store.records.values().filter_map(waits).collect();
        let ended = self
            .store
            .archive
            .values()
            .filter(|it| !it.job.notify.is_empty() && it.job.id.element.is_none());
        let told = ended.map(|it| (it.job.id, it.job.attempt, it.job.phase.state()));
        let mut untold = told.filter(|it| !waiting.contains(it) && !self.post.settled.contains(it));
        if let Some((job, _, state)) = untold.next() {
            self.blame(Invariant::Untold, format!("no message reports that job {job} is {state}"));
        }
    }
}
