//! What happens to jobs that a reservation or a drain displaces.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How running jobs leave devices that must become empty.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Displace {
    /// The job runs until it ends by itself.
    #[default]
    LetFinish,
    /// The job is stopped and requeued.
    Requeue,
    /// The job is cancelled.
    Cancel,
}

impl Displace {
    /// Every choice with its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("let_finish", Self::LetFinish), ("requeue", Self::Requeue), ("cancel", Self::Cancel)];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LetFinish => "let_finish",
            Self::Requeue => "requeue",
            Self::Cancel => "cancel",
        }
    }
}

impl fmt::Display for Displace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
