//! Facts of refusals that need a type of their own.

use serde::{Deserialize, Serialize};

use crate::id::NodeName;

/// The users that may do what another user may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permitted {
    /// The owner of the job, and admins of its project or of the server.
    #[default]
    Owner,
    /// Admins of the server, or of a project above the one in the request.
    ProjectAdmin,
    /// Admins of the server, of the project in the request, or of a project above it.
    AdminOfProject,
    /// Admins of the server.
    Admin,
}

/// The largest request of a kind that fits a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestFit {
    /// The number of devices.
    pub n_devices: u32,
    /// The node.
    pub node: NodeName,
    /// The number of such devices in the cluster.
    pub n_in_cluster: u32,
}
