//! The user of a job.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The user that a job belongs to and runs as.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// User name; the number if the system has no name for it.
    pub user: Arc<str>,
}
