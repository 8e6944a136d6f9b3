//! The outbox: the messages about jobs, projects and users, when each is sent again, and when it is
//! given up. A message is committed together with the change that it reports, and leaves the outbox
//! in another commit, so that none is lost. A message that was delivered just before a crash is
//! sent twice, with the same ID.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::effect::Change;
use gpool_model::job::{ExitStatus, JobState};
use gpool_model::notify::{
    Delivery, DeliveryId, JobNews, Late, NearLimit, News, Sent, host_of, origin_of,
};
use gpool_model::over_limit::OverMemory;
use gpool_model::{Caller, Effect, Job, JobSpec, NotifyRule, Phase, Timestamp};

use crate::control::Control;

/// Messages on their way, and messages that wait for their time. Lost when the server ends. Each
/// user and each host has a share of the connections, so that neither a user with many messages nor
/// a host that hangs delays the messages of others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Couriers {
    /// Sent, and not answered yet.
    under_way: BTreeMap<DeliveryId, Lane>,
    n_by_user: BTreeMap<u32, usize>,
    n_by_host: BTreeMap<Arc<str>, usize>,
    n_by_lane: BTreeMap<Lane, usize>,
    // Invariant: no set is empty.
    waiting: BTreeMap<Lane, BTreeSet<(Timestamp, DeliveryId)>>,
}

/// The messages of one user to one host.
type Lane = (u32, Arc<str>);

fn lane_of(delivery: &Delivery) -> Lane {
    (delivery.uid(), Arc::from(host_of(&delivery.url)))
}

impl Couriers {
    /// The largest number of messages on their way.
    const AT_ONCE: usize = 32;
    /// The largest number of one user's messages on their way.
    const AT_ONCE_OF_USER: usize = 4;
    /// The largest number of messages on their way to one host.
    const AT_ONCE_TO_HOST: usize = 4;
    /// The largest number of one user's messages on their way to one host.
    const AT_ONCE_IN_LANE: usize = 2;

    /// Collects the waiting messages of a loaded outbox.
    pub fn new<'d>(all: impl Iterator<Item = &'d Delivery>) -> Self {
        let mut couriers = Self::default();
        all.filter(|delivery| !delivery.given_up).for_each(|delivery| couriers.wait(delivery));
        couriers
    }

    fn wait(&mut self, delivery: &Delivery) {
        let queue = self.waiting.entry(lane_of(delivery)).or_default();
        queue.insert((delivery.due_at, delivery.id.clone()));
    }

    fn n_of_user(&self, uid: u32) -> usize {
        self.n_by_user.get(&uid).copied().unwrap_or(0)
    }

    /// The lanes that may send one more message, each with its first message.
    fn open(&self) -> impl Iterator<Item = (&Lane, &(Timestamp, DeliveryId))> {
        let has_room = |lane: &Lane| {
            let in_lane = self.n_by_lane.get(lane).copied().unwrap_or(0);
            let to_host = self.n_by_host.get(&lane.1).copied().unwrap_or(0);
            self.under_way.len() < Self::AT_ONCE
                && self.n_of_user(lane.0) < Self::AT_ONCE_OF_USER
                && to_host < Self::AT_ONCE_TO_HOST
                && in_lane < Self::AT_ONCE_IN_LANE
        };
        let open = self.waiting.iter().filter(move |(lane, _)| has_room(lane));
        open.filter_map(|(lane, queue)| Some((lane, queue.first()?)))
    }

    /// Returns when the next message could be sent.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.open().map(|(_, (due, _))| *due).min()
    }

    /// Takes the next message: from the users with the fewest messages on their way, the longest
    /// due.
    fn take(&mut self, now: Timestamp) -> Option<DeliveryId> {
        let due = self.open().filter(|(_, (due, _))| *due <= now);
        let next = due.min_by_key(|(lane, first)| (self.n_of_user(lane.0), *first));
        let (lane, first) = next.map(|(lane, first)| (lane.clone(), first.clone()))?;
        self.unqueue(&lane, &first);
        *self.n_by_user.entry(lane.0).or_default() += 1;
        *self.n_by_host.entry(Arc::clone(&lane.1)).or_default() += 1;
        *self.n_by_lane.entry(lane.clone()).or_default() += 1;
        self.under_way.insert(Arc::clone(&first.1), lane);
        Some(first.1)
    }

    fn came_back(&mut self, id: &DeliveryId) {
        let Some(lane) = self.under_way.remove(id) else { return };
        one_less(&mut self.n_by_user, &lane.0);
        one_less(&mut self.n_by_host, &lane.1);
        one_less(&mut self.n_by_lane, &lane);
    }

    fn forget(&mut self, delivery: &Delivery) {
        self.unqueue(&lane_of(delivery), &(delivery.due_at, delivery.id.clone()));
    }

    fn unqueue(&mut self, lane: &Lane, entry: &(Timestamp, DeliveryId)) {
        if let Some(queue) = self.waiting.get_mut(lane) {
            queue.remove(entry);
            if queue.is_empty() {
                self.waiting.remove(lane);
            }
        }
    }

    /// Messages of the same user to the same host that are due now.
    fn ready_in_lane(&self, delivery: &Delivery, now: Timestamp) -> Vec<DeliveryId> {
        let queue = self.waiting.get(&lane_of(delivery)).into_iter().flatten();
        queue.take_while(|(due, _)| *due <= now).map(|(_, id)| Arc::clone(id)).collect()
    }
}

fn one_less<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(n) = counts.get_mut(key) {
        *n -= 1;
        if *n == 0 {
            counts.remove(key);
        }
    }
}

impl Control {
    /// The largest number of waiting messages.
    const OUTBOX_MAX: usize = 10_000;
    /// The largest number of waiting messages of one user.
    const OUTBOX_OF_USER_MAX: usize = 1_000;
    /// The largest number of given-up messages that are kept for display.
    const GIVEN_UP_MAX: usize = 100;

    /// Puts messages about a job's new state into the outbox.
    pub(crate) fn tell(&mut self, spec: &JobSpec, job: &Job, state: JobState) {
        let news = self.news(spec, job, state);
        self.tell_news(job, news);
    }

    /// Puts messages about a job that does not use its GPUs into the outbox.
    pub(crate) fn tell_idle(&mut self, spec: &JobSpec, job: &Job, since: Timestamp) {
        let news = self.news(spec, job, job.phase.state());
        self.tell_news(job, JobNews { idle_since: Some(since), ..news });
    }

    /// Puts messages about a job that uses more GPU memory than its limit into the outbox.
    pub(crate) fn tell_over(&mut self, spec: &JobSpec, job: &Job, memory: OverMemory) {
        let news = self.news(spec, job, job.phase.state());
        self.tell_news(job, JobNews { over_memory: Some(memory), ..news });
    }

    /// Puts messages about a job near its time limit into the outbox.
    pub(crate) fn tell_near_limit(&mut self, spec: &JobSpec, job: &Job, near: NearLimit) {
        let news = self.news(spec, job, job.phase.state());
        self.tell_news(job, JobNews { near_limit: Some(near), ..news });
    }

    /// Puts messages about a job that missed its forecast into the outbox.
    pub(crate) fn tell_late(&mut self, spec: &JobSpec, job: &Job, late: Late) {
        let news = self.news(spec, job, job.phase.state());
        self.tell_news(job, JobNews { late: Some(Box::new(late)), ..news });
    }

    fn tell_news(&mut self, job: &Job, news: JobNews) {
        // An array sends one message, when all of it has ended.
        if job.notify.is_empty() || job.id.element.is_some() {
            return;
        }
        let (instead, state) = (news.instead(), news.state);
        let is_met = |rule: &NotifyRule| match instead {
            Some(on) => rule.on.contains(&on),
            None => rule.is_met_by(state),
        };
        self.post_news(&job.notify, is_met, &news.into());
    }

    /// Puts a message into the outbox for each address with a rule that is met.
    pub(crate) fn post_news(
        &mut self,
        rules: &[NotifyRule],
        is_met: impl Fn(&NotifyRule) -> bool,
        news: &News,
    ) {
        for (nth, rule) in rules.iter().enumerate().filter(|(_, it)| is_met(it)) {
            let outbox = self.world.outbox();
            if outbox.n_waiting() >= Self::OUTBOX_MAX
                || outbox.n_waiting_of(news.owner().uid) >= Self::OUTBOX_OF_USER_MAX
            {
                let why = Arc::from("too many messages are waiting to be sent");
                self.count_deliveries(|counts| counts.n_dropped += 1);
                self.publish(delivery_change(news, origin_of(&rule.url), Some(why)));
                continue;
            }
            let delivery = Delivery {
                id: Delivery::id_of(news, nth),
                url: Arc::clone(&rule.url),
                by_admin: rule.by_admin,
                news: news.clone(),
                n_attempts: 0,
                why: None,
                due_at: self.now,
                given_up: false,
            };
            self.couriers.wait(&delivery);
            self.world.put_delivery(delivery);
        }
    }

    fn news(&self, spec: &JobSpec, job: &Job, state: JobState) -> JobNews {
        let end = match &job.phase {
            Phase::Ended(end) => Some(&**end),
            _ => None,
        };
        let held = end.map_or(job.phase.allocations(), |end| &end.allocations[..]);
        let started_at = match &job.phase {
            Phase::Running { started_at, .. } => Some(*started_at),
            _ => end.and_then(|end| end.started_at),
        };
        JobNews {
            job: job.id,
            attempt: job.attempt,
            state,
            at: self.now,
            name: Arc::clone(&spec.name),
            owner: spec.owner.clone(),
            project: spec.project.clone(),
            gpus: Arc::clone(&spec.gpus_written),
            nodes: held.iter().map(|allocation| allocation.node.clone()).collect(),
            submitted_at: spec.submitted_at,
            started_at,
            ended_at: end.map(|end| end.ended_at),
            exit_code: end.and_then(|end| end.exit).map(ExitStatus::shell_code),
            usage: end.filter(|end| end.started_at.is_some()).map(|end| end.usage),
            xids: job.course.xids.clone(),
            idle_since: None,
            over_memory: None,
            near_limit: None,
            late: None,
        }
    }

    /// Handles the result of a sent message.
    pub(crate) fn delivered(&mut self, id: &DeliveryId, sent: Sent) {
        self.couriers.came_back(id);
        let waits = |delivery: &&Delivery| !delivery.given_up;
        let Some(mut delivery) = self.world.outbox().get(id).filter(waits).cloned() else {
            // Two lives of the server sent the message, and the first one succeeded.
            return;
        };
        match sent {
            Sent::Taken => {
                self.couriers.forget(&delivery);
                self.world.remove_delivery(id);
                self.count_deliveries(|counts| counts.n_taken += 1);
                self.publish(delivery_change(&delivery.news, delivery.origin(), None));
            }
            Sent::Failed { why } => self.try_later(delivery, why),
            Sent::Unanswered { why } => {
                // Each of them would use a connection only to fail in the same way.
                for id in self.couriers.ready_in_lane(&delivery, self.now) {
                    let beside = self.world.outbox().get(&id).filter(waits).cloned();
                    let same = beside.filter(|beside| beside.origin() == delivery.origin());
                    if let Some(beside) = same {
                        self.try_later(beside, Arc::clone(&why));
                    }
                }
                self.try_later(delivery, why);
            }
            Sent::Refused { why } => {
                self.couriers.forget(&delivery);
                delivery.n_attempts = delivery.n_attempts.saturating_add(1);
                delivery.why = Some(why);
                self.give_up(delivery);
            }
        }
    }

    /// Schedules a failed message again, or gives it up.
    fn try_later(&mut self, mut delivery: Delivery, why: Arc<str>) {
        self.couriers.forget(&delivery);
        let n_attempts = usize::try_from(delivery.n_attempts).ok();
        delivery.n_attempts = delivery.n_attempts.saturating_add(1);
        delivery.why = Some(why);
        match n_attempts.and_then(|n| Delivery::WAITS.get(n)) {
            Some(wait) => {
                delivery.due_at = self.now.after(*wait);
                self.couriers.wait(&delivery);
                self.world.put_delivery(delivery);
            }
            None => self.give_up(delivery),
        }
    }

    fn give_up(&mut self, mut delivery: Delivery) {
        self.count_deliveries(|counts| counts.n_given_up += 1);
        self.publish(delivery_change(&delivery.news, delivery.origin(), delivery.why.clone()));
        delivery.due_at = self.now;
        delivery.given_up = true;
        self.world.put_delivery(delivery);
        while self.world.outbox().n_given_up() > Self::GIVEN_UP_MAX
            && let Some(oldest) = self.world.outbox().first_given_up().cloned()
        {
            self.world.remove_delivery(&oldest);
        }
    }

    fn count_deliveries(&mut self, count: impl Fn(&mut gpool_model::notify::DeliveryCounts)) {
        let mut cluster = self.world.cluster().clone();
        count(&mut cluster.deliveries);
        self.world.put_cluster(cluster);
    }

    /// Sends due messages. A message that is not committed yet leaves with its commit.
    pub(crate) fn send_deliveries(&mut self) {
        while let Some(id) = self.couriers.take(self.now) {
            match self.world.outbox().get(&id).cloned() {
                Some(delivery) => self.effect(Effect::Deliver(Box::new(delivery))),
                None => self.couriers.came_back(&id),
            }
        }
    }
}

/// The change for watchers when a message was delivered, or is not sent again.
fn delivery_change(news: &News, origin: &str, given_up: Option<Arc<str>>) -> Change {
    let origin = Arc::from(origin);
    match news {
        News::Job(news) => Change::Told { job: news.job, origin, given_up },
        News::Payer(news) => Change::ToldOfPayer { payer: news.payer.clone(), origin, given_up },
    }
}

/// Marks the rules of an admin: they may name addresses inside the server's machine.
pub(crate) fn as_named_by(caller: &Caller, mut rules: Vec<NotifyRule>) -> Vec<NotifyRule> {
    for rule in &mut rules {
        rule.by_admin |= caller.admin;
    }
    rules
}
