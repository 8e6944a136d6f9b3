//! Tells that a server stays away or silent while it is waited for, and that it is back: once
//! each, however many requests wait.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpool_wire::live::Liveness;

use crate::silence::Silence;

/// A server that is back within this time is not told of: a restart takes less.
const UNTOLD: Duration = Duration::from_secs(1);

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// No server has answered for a second, and the client still waits for one.
    Away,
    /// The server is there and answers nothing; the client still waits.
    Silent(Silence),
    /// The server lives and has not answered for that long; the client still waits.
    Slow(Duration, Liveness),
    /// After [`Presence::Away`] or [`Presence::Silent`], a server answers again.
    Back,
}

/// Whom to tell, shared by all clones of a client.
#[derive(Clone, Default)]
pub(crate) struct Absence {
    tell: Option<Arc<dyn Fn(Presence) + Send + Sync>>,
    /// Whether a server that is away or silent is waited for.
    is_patient: bool,
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
    pub(crate) fn telling(
        tell: impl Fn(Presence) + Send + Sync + 'static,
        is_patient: bool,
    ) -> Self {
        Self { tell: Some(Arc::new(tell)), is_patient, ..Self::default() }
    }

    /// Whether a server that is away or silent is waited for.
    pub(crate) fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// Whether a server that is not there is one that went away, and is waited for.
    pub(crate) fn is_missed(&self) -> bool {
        self.is_patient && self.was_there.load(Ordering::Relaxed)
    }

    /// The server is there and answers nothing.
    pub(crate) fn silent(&self, silence: Silence) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(std::mem::replace(&mut *state, State::Told), State::Told) {
            self.say(Presence::Silent(silence));
        }
    }

    /// The server lives and has not answered for that long.
    pub(crate) fn slow(&self, silent_for: Duration, alive: Liveness) {
        self.say(Presence::Slow(silent_for, alive));
    }

    /// A request found no server.
    pub(crate) fn away(&self) {
        if !self.is_patient {
            return;
        }
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
        let tell = move |presence| to.lock().expect("no thread panicked").push(presence);
        let absence = Absence::telling(tell, true);
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
