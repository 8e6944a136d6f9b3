//! A typed, blocking client of the API: it finds the server's socket, speaks HTTP over it, and
//! turns problems into errors with the exit code that a command gives. It renders nothing and
//! decides nothing; without an async runtime it costs a command next to nothing to start.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "problems carry their facts, and failing is no hot path"
)]

mod absence;
mod call;
mod cluster;
mod error;
mod events;
mod jobs;
pub mod life;
mod line;
mod logs;
mod projects;
mod reservations;
mod silence;
pub mod socket;
mod transport;
mod vigil;

pub use absence::Presence;
pub use call::Client;
pub use error::Error;
pub use events::Events;
pub use jobs::{JobsQuery, new_key};
pub use life::Life;
pub use line::Line;
pub use logs::{LogQuery, LogStream, Logs};
pub use silence::{Cause, Silence};
pub use socket::Place;
pub use vigil::Vigil;
