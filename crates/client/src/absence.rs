//! Reports that a server stays away or silent, and that it is back: once each, for any number of
//! waiting requests.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpool_wire::live::Liveness;

use crate::silence::Silence;

/// A shorter absence is not reported: a restart takes less time.
pub const UNTOLD: Duration = Duration::from_secs(1);

/// A report about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerPresence {
    /// No server has answered for a second, and the client still waits.
    Away,
    /// The server is there but answers nothing; the client still waits.
    Silent(Silence),
    /// The server lives but has not answered for this long; the client still waits.
    Slow(Duration, Liveness),
    /// After [`ServerPresence::Away`] or [`ServerPresence::Silent`]: a server answers again.
    Back,
}

/// The receiver of the reports, shared by all clones of a client.
#[derive(Clone, Default)]
pub struct Absence {
    tell: Option<Arc<dyn Fn(ServerPresence) + Send + Sync>>,
    /// Whether the client waits for a server that is away or silent.
    is_patient: bool,
    state: Arc<Mutex<AbsenceState>>,
    /// Whether a server has ever answered.
    was_there: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
enum AbsenceState {
    #[default]
    There,
    /// Away since this time, and not reported yet.
    Missed(Instant),
    Reported,
}

impl fmt::Debug for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Absence").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Absence {
    /// Reports changes to `tell`; a patient client waits for a server that is away.
    pub fn telling(
        tell: impl Fn(ServerPresence) + Send + Sync + 'static,
        is_patient: bool,
    ) -> Self {
        Self { tell: Some(Arc::new(tell)), is_patient, ..Self::default() }
    }

    /// Whether the client waits for a server that is away or silent.
    pub(crate) fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// Whether the client waits for a server that has answered before.
    pub(crate) fn is_missed(&self) -> bool {
        self.is_patient && self.was_there.load(Ordering::Relaxed)
    }

    /// Reports that the server is there and answers nothing.
    pub(crate) fn silent(&self, silence: Silence) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(std::mem::replace(&mut *state, AbsenceState::Reported), AbsenceState::Reported)
        {
            self.say(ServerPresence::Silent(silence));
        }
    }

    /// Reports that the server lives and has not answered for this long.
    pub(crate) fn slow(&self, silent_for: Duration, alive: Liveness) {
        self.say(ServerPresence::Slow(silent_for, alive));
    }

    /// Notes that a request found no server.
    pub(crate) fn away(&self) {
        if !self.is_patient {
            return;
        }
        self.away_at(Instant::now());
    }

    /// The server does not answer at this time.
    pub fn away_at(&self, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            AbsenceState::There => *state = AbsenceState::Missed(now),
            AbsenceState::Missed(since) if now.saturating_duration_since(since) >= UNTOLD => {
                *state = AbsenceState::Reported;
                self.say(ServerPresence::Away);
            }
            AbsenceState::Missed(_) | AbsenceState::Reported => {}
        }
    }

    /// Notes that a request was answered.
    pub fn back(&self) {
        self.was_there.store(true, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let AbsenceState::Reported = std::mem::take(&mut *state) {
            self.say(ServerPresence::Back);
        }
    }

    fn say(&self, presence: ServerPresence) {
        if let Some(tell) = &self.tell {
            tell(presence);
        }
    }
}
