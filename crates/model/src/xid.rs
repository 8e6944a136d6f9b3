//! Xids, the error reports of NVIDIA's driver, and those of a job.

use serde::{Deserialize, Serialize};

use crate::id::NodeName;

/// Xids that a program causes: an invalid access, its end, a timeout.
///
/// Source: the list that NVIDIA's Kubernetes device plugin skips, and the Xid catalogue.
pub const OF_PROGRAMS: [u64; 6] = [13, 31, 43, 45, 68, 109];

/// A kind of Xid that a device reported while a job had it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobXid {
    /// The node.
    pub node: NodeName,
    /// The index of the device.
    pub device: u32,
    /// The number of the Xid.
    pub xid: u64,
    /// How often it was reported.
    pub count: u64,
}
