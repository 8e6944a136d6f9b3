//! Failures of the commands.

use gpool_cli::failure::Failure;
use gpool_valohai::finding::Finding;
use gpool_wire::catalogue;

/// A failure of a request.
pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(catalogue::INVALID, what)
}

/// The failure for a finding in a file.
pub(crate) fn finding(finding: &Finding, yaml: &str) -> Failure {
    let failure = invalid(format!("{yaml}, line {}: {}", finding.line, finding.what));
    match &finding.advice {
        Some(advice) => failure.why(advice),
        None => failure,
    }
}
