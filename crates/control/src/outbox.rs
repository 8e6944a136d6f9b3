//! The outbox: what of a job's life is told to whom, when each message is sent again, and when it
//! is given up. A message is in the same commit as what it tells, and leaves the outbox by another,
//! so that none is lost; one that was taken just before a crash is sent twice, under the same id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::effect::Change;
use gpool_model::job::{ExitStatus, JobState};
use gpool_model::notify::{Delivery, DeliveryId, JobNews, Sent, origin_of};
use gpool_model::{Caller, Effect, Job, JobSpec, NotifyRule, Phase, Timestamp};

use crate::control::Control;

/// Messages that are on their way, and those that wait for their moment. Known only to this life
/// of the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Couriers {
    /// Sent, and not yet answered, with where to.
    under_way: BTreeMap<DeliveryId, Arc<str>>,
    n_by_origin: BTreeMap<Arc<str>, usize>,
    /// Waiting, by where to.
    // Invariant: no set is empty.
    waiting: BTreeMap<Arc<str>, BTreeSet<(Timestamp, DeliveryId)>>,
}

impl Couriers {
    /// Messages that are sent at once.
    const AT_ONCE: usize = 16;
    /// Messages that are sent to one address at once, so that one that hangs stops no other.
    const AT_ONCE_TO_ONE: usize = 2;

    /// What waits in an outbox that was loaded.
    pub fn new<'d>(all: impl Iterator<Item = &'d Delivery>) -> Self {
        let mut couriers = Self::default();
        all.filter(|delivery| !delivery.given_up).for_each(|delivery| couriers.wait(delivery));
        couriers
    }

    fn wait(&mut self, delivery: &Delivery) {
        let origin = Arc::from(origin_of(&delivery.url));
        self.waiting.entry(origin).or_default().insert((delivery.due, delivery.id.clone()));
    }

    fn has_room(&self, origin: &str) -> bool {
        self.n_by_origin.get(origin).copied().unwrap_or(0) < Self::AT_ONCE_TO_ONE
    }

    /// When the next message could be sent.
    pub fn next_timer(&self) -> Option<Timestamp> {
        if self.under_way.len() >= Self::AT_ONCE {
            return None;
        }
        let open = self.waiting.iter().filter(|(origin, _)| self.has_room(origin));
        open.filter_map(|(_, queue)| queue.first().map(|(at, _)| *at)).min()
    }

    /// Takes the message that is longest due of those that may be sent now.
    fn take(&mut self, now: Timestamp) -> Option<DeliveryId> {
        if self.under_way.len() >= Self::AT_ONCE {
            return None;
        }
        let open = self.waiting.iter().filter(|(origin, _)| self.has_room(origin));
        let first = open.filter_map(|(origin, queue)| Some((queue.first()?.clone(), origin)));
        let ((due, id), origin) = first.min().filter(|((due, _), _)| *due <= now)?;
        let origin = Arc::clone(origin);
        let queue = self.waiting.get_mut(&origin)?;
        queue.remove(&(due, id.clone()));
        if queue.is_empty() {
            self.waiting.remove(&origin);
        }
        *self.n_by_origin.entry(Arc::clone(&origin)).or_default() += 1;
        self.under_way.insert(id.clone(), origin);
        Some(id)
    }

    fn came_back(&mut self, id: &DeliveryId) {
        let Some(origin) = self.under_way.remove(id) else { return };
        if let Some(n) = self.n_by_origin.get_mut(&origin) {
            *n -= 1;
            if *n == 0 {
                self.n_by_origin.remove(&origin);
            }
        }
    }

    fn forget(&mut self, delivery: &Delivery) {
        let origin: Arc<str> = Arc::from(delivery.origin());
        if let Some(queue) = self.waiting.get_mut(&origin) {
            queue.remove(&(delivery.due, delivery.id.clone()));
            if queue.is_empty() {
                self.waiting.remove(&origin);
            }
        }
    }
}

impl Control {
    /// More messages than this do not wait.
    const OUTBOX_MAX: usize = 10_000;
    /// More messages of one user than this do not wait.
    const OUTBOX_OF_USER_MAX: usize = 1_000;
    /// Messages that were given up and are kept to be shown.
    const GIVEN_UP_MAX: usize = 100;

    /// Puts into the outbox what is to be told of a job that has come into a state.
    pub(crate) fn tell(&mut self, spec: &JobSpec, job: &Job, state: JobState) {
        // An array tells once, when all of it has ended.
        if job.notify.is_empty() || job.id.element.is_some() {
            return;
        }
        let news = self.news(spec, job, state);
        for (nth, rule) in job.notify.iter().enumerate().filter(|(_, it)| it.is_met_by(state)) {
            let outbox = self.world.outbox();
            if outbox.n_waiting() >= Self::OUTBOX_MAX
                || outbox.n_waiting_of(spec.owner.uid) >= Self::OUTBOX_OF_USER_MAX
            {
                let origin = Arc::from(origin_of(&rule.url));
                let why = Arc::from("too many messages are waiting to be sent");
                self.count_deliveries(|counts| counts.n_dropped += 1);
                self.publish(Change::Told { job: job.id, origin, given_up: Some(why) });
                continue;
            }
            let delivery = Delivery {
                id: Delivery::id_of(&news, nth),
                url: Arc::clone(&rule.url),
                by_admin: rule.by_admin,
                news: news.clone(),
                n_attempts: 0,
                why: None,
                due: self.now,
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
        }
    }

    /// What became of a message that was sent.
    pub(crate) fn delivered(&mut self, id: &DeliveryId, sent: Sent) {
        self.couriers.came_back(id);
        let waits = |delivery: &&Delivery| !delivery.given_up;
        let Some(mut delivery) = self.world.outbox().get(id).filter(waits).cloned() else {
            // Sent twice, by two lives of the server, and taken before.
            return;
        };
        self.couriers.forget(&delivery);
        let waits = usize::try_from(delivery.n_attempts).ok();
        let wait = waits.and_then(|n| Delivery::WAITS.get(n));
        let (why, wait) = match sent {
            Sent::Taken => {
                self.world.remove_delivery(id);
                self.count_deliveries(|counts| counts.n_taken += 1);
                return self.publish(Change::Told {
                    job: delivery.news.job,
                    origin: Arc::from(delivery.origin()),
                    given_up: None,
                });
            }
            Sent::Failed { why } => (why, wait),
            Sent::Refused { why } => (why, None),
        };
        delivery.n_attempts = delivery.n_attempts.saturating_add(1);
        delivery.why = Some(why);
        match wait {
            Some(wait) => {
                delivery.due = self.now.after(*wait);
                self.couriers.wait(&delivery);
                self.world.put_delivery(delivery);
            }
            None => self.give_up(delivery),
        }
    }

    fn give_up(&mut self, mut delivery: Delivery) {
        self.count_deliveries(|counts| counts.n_given_up += 1);
        self.publish(Change::Told {
            job: delivery.news.job,
            origin: Arc::from(delivery.origin()),
            given_up: delivery.why.clone(),
        });
        delivery.due = self.now;
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

    /// Sends what is due. What is in no commit yet leaves with the commit.
    pub(crate) fn send_due(&mut self) {
        while let Some(id) = self.couriers.take(self.now) {
            match self.world.outbox().get(&id).cloned() {
                Some(delivery) => self.effect(Effect::Deliver(Box::new(delivery))),
                None => self.couriers.came_back(&id),
            }
        }
    }
}

/// Rules as the one who asks may have them: what an admin names, the server may be made to ask.
pub(crate) fn as_named_by(caller: &Caller, mut rules: Vec<NotifyRule>) -> Vec<NotifyRule> {
    for rule in &mut rules {
        rule.by_admin |= caller.admin;
    }
    rules
}
