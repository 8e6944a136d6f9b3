//! Services: `gpool serve` describes one, and its gateway, a job, submits its replicas as jobs,
//! balances requests over them, and scales, updates and drains them.
//!
//! [`scale`], [`balance`], [`plan`] and [`measure`] compute, with the time as an argument; the rest
//! acts.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

pub mod balance;
mod driver;
mod failure;
mod flags;
pub mod gateway;
mod journal;
pub mod measure;
mod member;
pub mod plan;
mod proxy;
pub mod replicas;
pub mod scale;
pub mod serve;
pub mod service;
mod show;

/// Checks that a certificate and its key can be used.
///
/// # Errors
/// A file can't be read, or they do not match.
pub(crate) fn check_tls(files: &service::TlsFiles) -> std::io::Result<()> {
    proxy::listener::acceptor(files).map(drop)
}
