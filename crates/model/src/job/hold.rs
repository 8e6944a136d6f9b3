//! Holds: a user, an admin or the scheduler keeps a job from starting or resuming.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ProjectName;

/// The holder of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// The owner; may also release it.
    User,
    /// An admin; the owner cannot release it.
    Admin,
    /// The job itself: it was idle, and does not need its released devices yet.
    Idle,
    /// The scheduler: its plan for the job broke an invariant. The owner may release it.
    Scheduler,
    /// The server: the budget of its project or user is used up. An admin may release it.
    Budget,
}

/// The admin that stopped a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AdminHold {
    /// The admin's user name.
    pub by: Arc<str>,
    /// The project of a project admin; `None` is an admin of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
}
