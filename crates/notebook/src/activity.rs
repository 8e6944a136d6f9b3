//! Decides whether a person works with a Jupyter server. Pure: answers of Jupyter in, lines out.
//!
//! A kernel that runs a cell is busy, also if the cell prints nothing. Jupyter does not change
//! `last_activity` meanwhile. Open tabs do not count: `/api/status` has their requests in its
//! `last_activity`, so it is not read.

use serde::Deserialize;

/// A kernel or terminal in an answer of Jupyter.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Session {
    /// `busy`, `idle` or `starting`; terminals have none.
    #[serde(default)]
    pub execution_state: String,
    /// A time in RFC 3339, in UTC. All of one server have the same form.
    #[serde(default)]
    pub last_activity: String,
}

/// Seconds between two lines while the server stays busy. gpool takes one that says nothing for
/// three minutes as not busy.
const REPEAT_S: u64 = 60;

/// The last looks.
#[derive(Debug, Default)]
pub struct Activity {
    /// The latest activity of all kernels and terminals.
    last: Option<String>,
    /// The last line, and its time in seconds.
    reported: Option<(bool, u64)>,
}

impl Activity {
    /// Compares the kernels and terminals with those of the last look. Returns whether the server
    /// is busy, if that is due to be reported. `now_s` is a time in seconds.
    pub fn look(&mut self, sessions: &[Session], now_s: u64) -> Option<bool> {
        let is_running = sessions.iter().any(|it| it.execution_state == "busy");
        let last = sessions.iter().map(|it| &it.last_activity).max().cloned();
        let has_moved = last > self.last;
        self.last = last.max(self.last.take());
        let is_busy = is_running || has_moved;
        let is_due = match self.reported {
            None => is_busy,
            Some((before, at)) => {
                before != is_busy || is_busy && now_s.saturating_sub(at) >= REPEAT_S
            }
        };
        if is_due {
            self.reported = Some((is_busy, now_s));
        }
        is_due.then_some(is_busy)
    }
}
