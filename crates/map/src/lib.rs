//! `gpool map`: a program that loads something once handles the items of a list, in several
//! workers. Each item is recorded once; it may run twice after a crash.
//!
//! A job without GPU, the driver, leases the items to workers, which are an array. Its records
//! are in a folder of the user, so that the next driver goes on.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

mod args;
pub mod container;
pub mod driver;
mod folder;
pub mod items;
pub mod ledger;
pub mod message;
pub mod plan;
pub mod records;
mod show;
mod start;
pub mod worker;

use gpool_cli::failure::Result;
use gpool_cli::session::Session;

pub use args::MapArgs;

/// Runs the verb.
///
/// # Errors
/// The list or the request is wrong, or the server refuses.
pub fn run(args: &MapArgs, session: &Session) -> Result {
    match (&args.show, &args.resume) {
        (Some(name), _) => show::run(name, session),
        (None, Some(name)) => start::resume(name, session),
        (None, None) => start::run(args, session),
    }
}
