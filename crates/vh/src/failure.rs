//! Failures of the commands.

use gpool_cli::failure::Failure;
use gpool_wire::catalogue;

/// A failure of a request.
pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(catalogue::INVALID, what)
}
