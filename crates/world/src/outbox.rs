//! The messages that are still to be sent, and the last messages that were given up.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::Timestamp;
use gpool_model::notify::{Delivery, DeliveryId};

#[derive(Debug, Clone, Default)]
pub struct Outbox {
    deliveries: BTreeMap<DeliveryId, Delivery>,
    /// Messages that are still to be sent, by user.
    n_by_uid: BTreeMap<u32, usize>,
    /// Messages that were given up, by time.
    given_up: BTreeSet<(Timestamp, DeliveryId)>,
}

impl Outbox {
    /// Every message, by id.
    pub fn all(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.values()
    }

    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Delivery> {
        self.deliveries.get(id)
    }

    /// How many messages are still to be sent.
    #[must_use]
    pub fn n_waiting(&self) -> usize {
        self.deliveries.len() - self.given_up.len()
    }

    /// How many messages of a user are still to be sent.
    #[must_use]
    pub fn n_waiting_of(&self, uid: u32) -> usize {
        self.n_by_uid.get(&uid).copied().unwrap_or(0)
    }

    /// How many given-up messages are stored.
    #[must_use]
    pub fn n_given_up(&self) -> usize {
        self.given_up.len()
    }

    /// The message that was given up first.
    #[must_use]
    pub fn first_given_up(&self) -> Option<&DeliveryId> {
        self.given_up.first().map(|(_, id)| id)
    }

    pub(crate) fn insert(&mut self, delivery: Delivery) {
        self.remove(&delivery.id);
        if delivery.given_up {
            self.given_up.insert((delivery.due_at, delivery.id.clone()));
        } else {
            *self.n_by_uid.entry(delivery.uid()).or_default() += 1;
        }
        self.deliveries.insert(delivery.id.clone(), delivery);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<Delivery> {
        let delivery = self.deliveries.remove(id)?;
        let uid = delivery.uid();
        if delivery.given_up {
            self.given_up.remove(&(delivery.due_at, delivery.id.clone()));
        } else if let Some(n) = self.n_by_uid.get_mut(&uid) {
            *n -= 1;
            if *n == 0 {
                self.n_by_uid.remove(&uid);
            }
        }
        Some(delivery)
    }
}
