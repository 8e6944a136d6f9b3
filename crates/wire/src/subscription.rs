//! Notifications about a project or user.

use gpool_model::budget::Payer;
use gpool_model::{NotifyRule, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::notify::{payer_rules, rule_text};

/// The addresses that get messages about a project or user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// `project` or `user`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Events and addresses without their paths; empty if nothing is sent.
    pub notify: Vec<String>,
    /// User that set the addresses; the key of this user signs the messages.
    pub set_by: Option<String>,
}

impl Subscription {
    /// Returns the subscription of a project or user, which may have none.
    #[must_use]
    pub fn new(payer: &Payer, found: Option<&gpool_model::subscription::Subscription>) -> Self {
        let rules = found.map(|it| it.rules.iter().map(rule_text).collect());
        Self {
            kind: payer.kind().to_owned(),
            name: payer.name().to_owned(),
            notify: rules.unwrap_or_default(),
            set_by: found.map(|it| it.owner.user.to_string()),
        }
    }
}

/// New addresses for messages about a project or user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionPatch {
    /// Events and addresses in place of all earlier ones: `budget,digest@https://host/path`,
    /// `digest@mailto:ana@example.org`. Empty, or `none` alone, sends nothing.
    pub notify: Vec<String>,
}

impl SubscriptionPatch {
    /// Reads the addresses.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the error and a valid example.
    pub fn check(&self) -> Result<Vec<NotifyRule>, Refusal> {
        payer_rules(&self.notify)
    }
}
