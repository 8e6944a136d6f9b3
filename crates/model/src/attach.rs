//! What somebody may open towards a job that runs: its terminal, a further program beside it, a
//! connection to what it serves.

use serde::{Deserialize, Serialize};

use crate::launch::WindowSize;

/// What is to be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "open", rename_all = "snake_case")]
pub enum Opening {
    /// The job's own terminal.
    Attach {
        /// Size of the window in which it is seen.
        window: Option<WindowSize>,
    },
    /// A further program, among the job's processes and on its devices.
    Exec(Exec),
    /// A connection to what a process of the job listens on.
    Forward {
        /// Where.
        to: ForwardTo,
    },
}

/// A program that is run beside a job's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Runs it on a terminal of that size, and not on pipes.
    pub pty: Option<WindowSize>,
    /// Where it runs; the job's directory unless said.
    pub directory: Option<String>,
    /// Variables beside the job's, by name.
    pub environment: Vec<(String, String)>,
}

/// Where a process listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardTo {
    /// A TCP port of the node's loopback address.
    Port(u16),
    /// A unix socket, by its absolute path.
    Socket(String),
}

/// Why nothing was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "not_opened", rename_all = "snake_case")]
pub enum NotOpened {
    /// The job has no terminal.
    NoTerminal,
    /// Its program does not run: not yet, or not any more.
    NotRunning,
    /// No process of the job listens there.
    NothingListens {
        /// Ports on which processes of it do.
        ports: Vec<u16>,
    },
    /// As many are open as may be.
    TooMany {
        /// How many that is.
        most: u32,
    },
    /// Something else failed.
    Failed {
        /// What, for people.
        why: String,
    },
}
