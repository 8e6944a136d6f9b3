//! The liveness check of a server: a thread answers on a second socket, independent of the rest of
//! the server. It distinguishes a slow server from a stopped or hanging process, which does not
//! answer.

use serde::{Deserialize, Serialize};

/// Suffix of the liveness socket's path, after the path of the API socket.
pub const SUFFIX: &str = ".live";
/// Maximum size of an answer in bytes.
pub const ANSWER_MAX: u64 = 4096;

/// The server's answer to each connection, as a line of JSON. The server reads no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Liveness {
    /// Process ID of the server.
    pub pid: u32,
    /// Duration of the core's current step in milliseconds; 0 between two steps.
    pub core_ms: u64,
    /// Duration of the pending commit to disk in milliseconds; 0 if there is none.
    pub store_ms: u64,
}
