//! Notifications and digests of projects and users: one method for each kind of route.

use gpool_wire::{Digest, Document, Payer, Subscription, SubscriptionPatch};

use crate::call::{Call, Client, escaped};
use crate::error::Error;

impl Client {
    /// The addresses that get messages about a project or user.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn subscription(&self, payer: &Payer) -> Result<Subscription, Error> {
        let call = Call::get(&path(payer, "subscription"));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Sets the addresses that get messages about a project or user.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn subscribe(&self, payer: &Payer, notify: &[String]) -> Result<Subscription, Error> {
        let patch = SubscriptionPatch { notify: notify.to_vec() };
        let call = Call::patch(&path(payer, "subscription")).json(&patch);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The digest of the last seven days of a project or user.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn digest(&self, payer: &Payer) -> Result<Digest, Error> {
        let call = Call::get(&path(payer, "digest"));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }
}

fn path(payer: &Payer, what: &str) -> String {
    format!("/{}s/{}/{what}", payer.kind(), escaped(payer.name()))
}
