//! Failures of services.

use gpool_cli::failure::Failure;
use gpool_wire::catalogue;

/// A value or a file that can't be used.
pub fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(catalogue::INVALID, what)
}
