//! The audit log: changes with user and origin.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::time::Time;

/// A change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Number of the entry. Later entries have larger numbers.
    pub id: u64,
    /// Time of the change.
    pub at: Time,
    /// User that made it.
    pub user: String,
    /// Network user, if their token was for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_user: Option<String>,
    /// Where the request came in: `socket`, `dashboard`, or an address of the network.
    pub origin: String,
    /// ID of the token, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Method and path of the route: `PATCH /projects/{name}`.
    pub action: String,
    /// The changed objects: `projects/vision`, `jobs/12`.
    pub objects: Vec<String>,
    /// The request, of changes to the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub request: Option<Value>,
    /// Changed fields before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<Value>,
    /// The same fields after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<Value>,
    /// Code of the error, if the request was refused for lack of rights: `GP0501`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Refused requests of the user since its last entry that have no entry of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_more: Option<u64>,
    /// Hash over the hash of the entry before it in its file, and this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
}

impl AuditEntry {
    /// An entry of a user that acts from there, without anything about the action.
    #[must_use]
    pub fn new(at: Time, user: String, origin: String, action: String) -> Self {
        Self {
            id: 0,
            at,
            user,
            network_user: None,
            origin,
            token: None,
            action,
            objects: Vec::new(),
            request: None,
            before: None,
            after: None,
            refused: None,
            n_more: None,
            chain: None,
        }
    }
}
