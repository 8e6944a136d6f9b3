//! The standard streams of a process.

use std::os::fd::OwnedFd;

/// The standard streams of a process; absent ones are as the program says.
#[derive(Default)]
pub(super) struct Fds<'a> {
    pub stdin: Option<&'a OwnedFd>,
    pub stdout: Option<&'a OwnedFd>,
    pub stderr: Option<&'a OwnedFd>,
    /// Replaces the three others.
    pub terminal: Option<&'a OwnedFd>,
}
