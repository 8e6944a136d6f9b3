//! Nodes on other machines: how an admin adds one, and how its agent joins.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Time;

/// The routes of agents, after [`crate::API_PREFIX`]. They are no part of the public API: an agent
/// of this version uses them.
pub const AGENT_ROUTES: &str = "/agent";

/// The protocol in the `Upgrade` header of an agent's connections.
pub const AGENT_UPGRADE: &str = "gpool-agent/1";

/// Divides a join token into its secret and the fingerprint of the server.
pub const FINGERPRINT_MARK: char = '@';

/// A request to add a node on another machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddNode {
    /// Name of the node.
    pub name: String,
    /// Time until its join token expires: `1h`, `7d`. Default: 1 day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// What a new machine needs to join. Only this answer contains the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeInvitation {
    /// Name of the node.
    pub name: String,
    /// Address of the server, as this server would reach itself over the network.
    pub server: String,
    /// The join token, which serves once.
    pub token: String,
    /// Time at which the token expires.
    pub expires_at: Time,
    /// The command to run on the new machine.
    pub command: String,
}

/// A request of an agent to join, or for its next certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRequest {
    /// The secret of its join token; an agent that has joined shows its certificate instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The public key of the agent in Base64: a point of the curve P-256, uncompressed.
    pub public_key: String,
}

/// The certificate of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedCertificate {
    /// Name of the node.
    pub node: String,
    /// The certificate in Base64.
    pub certificate: String,
    /// How long it is valid, in seconds.
    pub valid_s: u32,
}
