//! Streams that a user may open to a running job: its terminal, another program beside it, a
//! connection to a port of it.

use serde::{Deserialize, Serialize};

use crate::launch::WindowSize;

/// The stream to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// The job's own terminal.
    Attach {
        /// The size of the user's window.
        window: Option<WindowSize>,
    },
    /// Another program, among the job's processes and on its devices.
    Exec(Exec),
    /// A connection to a port or socket on which a process of the job listens.
    Forward {
        /// The port or socket.
        to: ForwardTo,
    },
}

/// Another program that runs beside the job's own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Runs it on a terminal of this size instead of pipes.
    pub pty: Option<WindowSize>,
    /// The directory that it runs in; the job's directory by default.
    pub directory: Option<String>,
    /// Variables in addition to the job's, by name.
    pub environment: Vec<(String, String)>,
}

/// The address on which a process listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardTo {
    /// A TCP port of the node's loopback address.
    Port(u16),
    /// A unix socket, by its absolute path.
    Socket(String),
}

/// Why the stream was not opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotOpened {
    /// The job has no terminal.
    NoTerminal,
    /// Its program has not started or has ended.
    NotRunning,
    /// No process of the job listens there.
    NothingListens {
        /// Ports on which processes of the job listen.
        ports: Vec<u16>,
    },
    /// The job has the most streams that it may have.
    TooMany {
        /// The limit.
        most: u32,
    },
    /// Something else failed.
    Failed {
        /// The error, for people.
        why: String,
    },
}
