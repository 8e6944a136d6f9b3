//! Tells that a server stays away while it is waited for, and that it is back: once each, however
//! many requests wait.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A server that is back within this time is not told of: a restart takes less.
const UNTOLD: Duration = Duration::from_secs(1);

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Nobody has answered for a second, and is still waited for.
    Away,
    /// After that, somebody answers again.
    Back,
}

/// Whom to tell, shared by all clones of a client.
#[derive(Clone, Default)]
pub(crate) struct Absence {
    tell: Option<Arc<dyn Fn(Presence) + Send + Sync>>,
    state: Arc<Mutex<State>>,
    /// Whether anybody has ever answered.
    was_there: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    There,
    /// Not there since, and not told of yet.
    Missed(Instant),
    Told,
}

impl fmt::Debug for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Absence").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Absence {
    pub(crate) fn telling(tell: impl Fn(Presence) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Arc::new(tell)), ..Self::default() }
    }

    /// Whether a server that is not there is one that went away, and somebody wants to be told.
    pub(crate) fn is_missed(&self) -> bool {
        self.tell.is_some() && self.was_there.load(Ordering::Relaxed)
    }

    /// A request found nobody.
    pub(crate) fn away(&self) {
        self.away_at(Instant::now());
    }

    fn away_at(&self, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::There => *state = State::Missed(now),
            State::Missed(since) if now.saturating_duration_since(since) >= UNTOLD => {
                *state = State::Told;
                self.say(Presence::Away);
            }
            State::Missed(_) | State::Told => {}
        }
    }

    /// A request was answered.
    pub(crate) fn back(&self) {
        self.was_there.store(true, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Told = std::mem::take(&mut *state) {
            self.say(Presence::Back);
        }
    }

    fn say(&self, presence: Presence) {
        if let Some(tell) = &self.tell {
            tell(presence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_is_told_once_and_only_if_it_lasts() {
        let told: Arc<Mutex<Vec<Presence>>> = Arc::default();
        let to = Arc::clone(&told);
        let absence = Absence::telling(move |presence| {
            to.lock().expect("nobody panicked").push(presence);
        });
        let heard = || std::mem::take(&mut *told.lock().expect("nobody panicked"));
        let now = Instant::now();
        absence.away_at(now);
        absence.back();
        assert_eq!(heard(), [], "it was short");
        let other = absence.clone();
        absence.away_at(now);
        other.away_at(now + UNTOLD / 2);
        assert_eq!(heard(), []);
        other.away_at(now + UNTOLD);
        absence.away_at(now + UNTOLD * 2);
        assert_eq!(heard(), [Presence::Away]);
        absence.back();
        other.back();
        assert_eq!(heard(), [Presence::Back]);
    }
}
