//! The outbox and the subscriptions.

use std::collections::BTreeMap;

use gpool_model::budget::Payer;
use gpool_model::notify::Delivery;
use gpool_model::record::{Record, RecordKey, RecordKind};
use gpool_model::subscription::Subscription;

use crate::outbox::Outbox;
use crate::world::World;

/// Subscriptions by project or user.
pub(crate) type Subscriptions = BTreeMap<Payer, Subscription>;

impl World {
    /// The messages that are still to be sent, and the last messages that were given up.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Adds a message to the outbox, or replaces its state.
    pub fn put_delivery(&mut self, delivery: Delivery) {
        self.mark(Record::Delivery(Box::new(delivery.clone())).key());
        self.outbox.insert(delivery);
    }

    /// Removes a message from the outbox.
    pub fn remove_delivery(&mut self, id: &str) -> Option<Delivery> {
        let delivery = self.outbox.remove(id)?;
        self.mark(Record::Delivery(Box::new(delivery.clone())).key());
        Some(delivery)
    }

    /// The subscriptions to messages about projects and users.
    #[must_use]
    pub fn subscriptions(&self) -> &BTreeMap<Payer, Subscription> {
        &self.subscriptions
    }

    /// Adds a subscription, or replaces the one of its project or user.
    pub fn put_subscription(&mut self, subscription: Subscription) {
        self.mark(RecordKey { kind: RecordKind::Subscription, key: subscription.key() });
        self.subscriptions.insert(subscription.payer.clone(), subscription);
    }

    /// Removes the subscription of a project or user, if there is one.
    pub fn remove_subscription(&mut self, payer: &Payer) {
        if self.subscriptions.remove(payer).is_some() {
            self.mark(RecordKey { kind: RecordKind::Subscription, key: payer.key() });
        }
    }
}
