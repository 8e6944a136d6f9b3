//! The persons and programs that use a server: tokens, sign-in, sessions of browsers, certificates,
//! limits of requests by their source, secrets of users, and the audit log.

#![forbid(unsafe_code)]

pub mod access;
pub mod audit;
mod identities;
pub mod nodes;
pub mod outbound;
pub mod pool;
mod replace;
pub mod secrets;
pub mod sign_in;
mod stored;
pub mod tls;
pub mod web;

pub use identities::Identities;

use gpool_model::Timestamp;

fn now() -> Timestamp {
    Timestamp::new(gpool_sys::clock::unix_ms())
}
