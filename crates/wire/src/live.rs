//! The liveness check of a server: a second socket on which a thread of its own answers, whatever
//! the rest of the server does. It tells a process that is stopped or hangs, which answers nothing,
//! from a server that is slow.

use serde::{Deserialize, Serialize};

/// What the path of the liveness socket has behind that of the API.
pub const SUFFIX: &str = ".live";
/// Most bytes of an answer.
pub const ANSWER_MAX: u64 = 4096;

/// What a server answers to each connection, as a line of JSON. It reads nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Liveness {
    /// The process of the server.
    pub pid: u32,
    /// How long the core has worked on its current step, in milliseconds; 0 between two steps.
    pub core_ms: u64,
    /// How long the disk has not made durable what it was given, in milliseconds; 0 where nothing
    /// waits for it.
    pub store_ms: u64,
}
