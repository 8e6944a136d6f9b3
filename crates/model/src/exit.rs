//! How a job leaves what it holds when that is taken back for another.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::job::JobSpec;
use crate::life::Life;
use crate::unit::Millis;

/// A way in which a job may be taken off its devices, the best first: the one that loses least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Its processes are stopped where they are, and go on later.
    Pause,
    /// It is sent its own signal and given time to save; then it is run again.
    Checkpoint,
    /// It is ended and run again from its start.
    Requeue,
    /// It is ended for good.
    Kill,
}

impl Exit {
    /// Every exit, the best first.
    pub const ALL: [Self; 4] = [Self::Pause, Self::Checkpoint, Self::Requeue, Self::Kill];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Checkpoint => "checkpoint",
            Self::Requeue => "requeue",
            Self::Kill => "kill",
        }
    }

    /// What stood for it before there were others.
    #[must_use]
    pub fn usual() -> Self {
        Self::Requeue
    }

    /// Whether it is [`Exit::usual`].
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::usual()
    }

    /// Whether the job is run again from its start after it.
    #[must_use]
    pub fn runs_again(self) -> bool {
        matches!(self, Self::Checkpoint | Self::Requeue)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Exit {
    type Err = UnknownExit;

    fn from_str(word: &str) -> Result<Self, UnknownExit> {
        Self::ALL.into_iter().find(|exit| exit.as_str() == word).ok_or(UnknownExit)
    }
}

/// A word that is no exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is none of pause, checkpoint, requeue and kill")]
pub struct UnknownExit;

/// How a job is told to save what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The signal's number.
    pub signal: i32,
    /// How long it has for it; `None` is the job's own grace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Millis>,
}

impl Checkpoint {
    /// The signal where none is named: TERM.
    pub const SIGNAL: i32 = 15;
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self { signal: Self::SIGNAL, grace: None }
    }
}

impl JobSpec {
    /// How long its tasks have between the first signal and KILL when it is taken back that way.
    #[must_use]
    pub fn grace_for(&self, exit: Exit) -> Millis {
        let to_save = match exit {
            Exit::Checkpoint => self.life.checkpoint.and_then(|it| it.grace),
            Exit::Pause | Exit::Requeue | Exit::Kill => None,
        };
        to_save.unwrap_or(self.grace)
    }
}

impl Life {
    /// In which ways the job may be taken back; none if it may not be.
    #[must_use]
    pub fn allowed_exits(&self) -> BTreeSet<Exit> {
        if self.preemptible != Some(true) {
            return BTreeSet::new();
        }
        match self.exits.is_empty() {
            true => BTreeSet::from([Exit::usual()]),
            false => (*self.exits).clone(),
        }
    }

    /// Whether the job may be taken back in that way.
    #[must_use]
    pub fn allows(&self, exit: Exit) -> bool {
        self.preemptible == Some(true)
            && (self.exits.contains(&exit) || self.exits.is_empty() && exit.is_usual())
    }

    /// What is wrong with the exits that are asked for, with what would be right.
    #[must_use]
    pub fn wrong_exits(&self) -> Option<&'static str> {
        if self.preemptible == Some(false) && !self.exits.is_empty() {
            return Some("they say how it is taken back, and --no-preemptible that it never is");
        }
        let allowed = self.allowed_exits();
        if self.requeue == Some(false) && allowed.iter().any(|exit| exit.runs_again()) {
            return Some(
                "it is never run again (--no-requeue); allow pause,kill, or leave that out",
            );
        }
        if allowed.len() == 1 && allowed.contains(&Exit::Pause) {
            return Some("not every node can pause it at any time; say what else: pause,requeue");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_is_run_again_and_who_may_not_be_taken_back_has_no_exit() {
        let life = |preemptible, exits: &[Exit]| Life {
            preemptible,
            exits: exits.iter().copied().collect(),
            ..Life::default()
        };
        assert!(life(None, &[]).allowed_exits().is_empty());
        assert!(!life(Some(false), &[Exit::Kill]).allows(Exit::Kill));
        assert_eq!(life(Some(true), &[]).allowed_exits(), BTreeSet::from([Exit::Requeue]));
        let both = life(Some(true), &[Exit::Kill, Exit::Pause]);
        let best: Vec<Exit> = both.allowed_exits().into_iter().collect();
        assert_eq!(best, [Exit::Pause, Exit::Kill]);
        assert!(!both.allows(Exit::Requeue));
    }

    #[test]
    fn exits_that_can_not_be_are_told() {
        let life = |preemptible, requeue, exits: &[Exit]| Life {
            preemptible,
            requeue,
            exits: exits.iter().copied().collect(),
            ..Life::default()
        };
        let is_wrong = |life: Life| life.wrong_exits().is_some();
        assert!(is_wrong(life(Some(true), None, &[Exit::Pause])));
        assert!(is_wrong(life(Some(true), Some(false), &[])));
        assert!(is_wrong(life(Some(true), Some(false), &[Exit::Pause, Exit::Checkpoint])));
        assert!(is_wrong(life(Some(false), None, &[Exit::Kill])));
        assert!(!is_wrong(life(Some(true), Some(false), &[Exit::Pause, Exit::Kill])));
        assert!(!is_wrong(life(None, Some(false), &[])));
        assert!(!is_wrong(life(Some(true), None, &[])));
    }
}
