//! What happens to jobs that are in the way of a reservation or a drain.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What becomes of work that runs on devices when they are wanted empty.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Displace {
    /// It stays until it ends by itself.
    #[default]
    LetFinish,
    /// It is stopped and goes back to the queue.
    Requeue,
    /// It is stopped for good.
    Cancel,
}

impl Displace {
    /// Every choice with its word.
    pub const ALL: [(&'static str, Self); 3] =
        [("let_finish", Self::LetFinish), ("requeue", Self::Requeue), ("cancel", Self::Cancel)];

    /// The word for it.
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
