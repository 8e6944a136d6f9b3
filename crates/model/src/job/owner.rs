//! The user of a job.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Who a job belongs to and runs as.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// User name; the number where the system knows no name.
    pub user: Arc<str>,
}
