//! Limits on one user's load on the server, so that a runaway script does not keep other users
//! out. The defaults are far above normal use. The agent limits the resources of jobs.

use gpool_model::Bytes;

/// Limits for each user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: u32,
    /// Requests a second, over any length of time; for a moment twice as many may come.
    pub requests: u32,
    /// Jobs that have not ended.
    pub jobs: u64,
    /// Environments, scripts and array values that are stored for jobs.
    pub stored: Bytes,
    /// The files of one working folder, or of the results of one task.
    pub upload: Bytes,
    /// Working folders and results that are stored.
    pub files: Bytes,
    /// Bytes that changes may store in an hour, beside those at once.
    pub changes: Bytes,
    /// Dependencies that those name together, met or not.
    pub dependencies: u64,
    pub job_dependencies: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            // Four times what 64 clients that submit one by one are meant to come to.
            requests: 20_000,
            // What one bulk submission may have, and half of what the server keeps in memory.
            jobs: 1_000_000,
            // 250,000 different small ones.
            stored: Bytes::from_gib(1),
            upload: Bytes::from_gib(1),
            files: Bytes::from_gib(20),
            // With those at once, 100 MB in any hour.
            changes: Bytes::from_mib(32),
            dependencies: 100_000,
            job_dependencies: 1_000,
        }
    }
}
