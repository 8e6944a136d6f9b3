//! A typed, blocking client of the API: it finds the server, on a socket or on the network, speaks
//! HTTP with it, and turns problems into errors with exit codes. It renders no output and makes no
//! decisions. Without an async runtime it adds almost nothing to the start of a command.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(clippy::result_large_err, reason = "problems carry details, and errors are no hot path")]

mod absence;
mod access;
mod agent;
mod call;
mod cluster;
pub mod contexts;
mod error;
mod events;
mod files;
mod jobs;
pub mod life;
mod logs;
mod projects;
pub mod remote;
mod reservations;
mod silence;
pub mod socket;
mod stream;
mod subscriptions;
mod transport;
mod tunnel;
mod vigil;

pub use absence::ServerPresence;
pub use access::AuditQuery;
pub use call::Client;
pub use error::Error;
pub use events::Events;
pub use jobs::{JobsQuery, new_key};
pub use life::Life;
pub use logs::{LogQuery, LogStream, Logs};
pub use remote::{Address, Identity, Remote, Trust};
pub use silence::{Cause, Silence};
pub use socket::ServerLocation;
pub use stream::JobStream;
pub use vigil::Vigil;

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::absence::{Absence, UNTOLD};
    pub use crate::stream::ResponseHead;
}
