//! Holds: a user, an admin or the scheduler keeps a job from starting, or from going on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ProjectName;
use crate::job::{Job, Phase};

/// Who keeps a job held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// Its owner, who may release it.
    User,
    /// An admin; its owner can't release it.
    Admin,
    /// The scheduler: its plan for the job broke an invariant. The owner may release it.
    Scheduler,
}

/// The admin that stopped a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AdminHold {
    /// The admin's user name.
    pub by: Arc<str>,
    /// The project of an admin of a project; `None` is an admin of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
}

impl Job {
    /// Returns the holder that keeps the job from starting or going on, if any.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        match &self.phase {
            Phase::Held { by, .. } => Some(*by),
            Phase::Paused { held, .. } => *held,
            _ => None,
        }
    }

    /// Whether only an admin of the server may start it. A record from before holds had names is
    /// that of such an admin.
    #[must_use]
    pub fn is_held_by_server_admin(&self) -> bool {
        let hold = self.course.admin_hold.as_ref();
        self.holder() == Some(Holder::Admin) && hold.is_none_or(|it| it.project.is_none())
    }

    /// How it is held when its present attempt is over, if it is held then.
    #[must_use]
    pub fn holder_next(&self) -> Holder {
        match self.course.admin_hold {
            Some(_) => Holder::Admin,
            None => Holder::User,
        }
    }
}
