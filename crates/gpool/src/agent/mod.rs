//! Agents of a server on another machine: how a machine becomes a node, the connections to the
//! server, and the API for jobs.

pub mod api;
mod dial;
mod enrollment;

pub use dial::ServerDial;
pub use enrollment::{Enrollment, FILE as ENROLLMENT_FILE, NotJoined};
