//! The listeners of a server, which admit users and limit their connections, and the pages of its
//! dashboard. They serve the API of `gpool-api`.

#![forbid(unsafe_code)]

mod accept;
mod agent;
mod entrance;
mod network;
mod pages;
#[cfg(feature = "fuzzing")]
pub mod testing;

pub use accept::serve;
