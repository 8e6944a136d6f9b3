//! Keys in, requests out.

use gpool_model::JobVerb;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// Ctrl-C, also in prompts.
    Interrupt,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    /// To the first row.
    Home,
    /// To the last row.
    End,
    /// To the next pane.
    Tab,
    /// To the previous pane.
    BackTab,
    Enter,
    Escape,
    /// Deletes the last character of a prompt.
    Backspace,
}

/// A request of the user to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopCommand {
    Quit,
    Refresh,
    /// Apply a verb to jobs; the user has confirmed it.
    Act {
        verb: JobVerb,
        /// IDs of the jobs.
        jobs: Vec<String>,
    },
    /// Send a signal to a process; the user has confirmed it.
    Signal {
        pid: u32,
        /// Start time in ticks since boot, so that no other process gets the signal.
        started: Option<u64>,
        signal: i32,
    },
}

/// The keys of actions on jobs.
pub const VERBS: [(char, JobVerb); 6] = [
    ('c', JobVerb::Cancel),
    ('H', JobVerb::Hold),
    ('R', JobVerb::Release { at: None }),
    ('p', JobVerb::Pause),
    ('P', JobVerb::Resume),
    ('Q', JobVerb::Requeue { hold: false }),
];

/// The keys of signals to processes of this machine, as in nvitop.
pub const SIGNALS: [(char, i32, &str); 3] =
    [('T', 15, "terminate"), ('K', 9, "kill"), ('I', 2, "interrupt")];
