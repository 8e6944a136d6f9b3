//! Files with a store, and the failure for a store that can't be used.

use std::io::Read as _;
use std::path::Path;

use crate::errors;
use crate::failure::Failure;

/// The first bytes of a store.
const STORE: &[u8] = b"SQLite format 3\0";

/// Whether a path is a state folder or a backup.
///
/// # Errors
/// It does not exist, or can't be read.
pub fn is_store(path: &Path) -> std::io::Result<bool> {
    if std::fs::metadata(path)?.is_dir() {
        return Ok(true);
    }
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(STORE.len() as u64).read_to_end(&mut head)?;
    Ok(head == STORE)
}

/// The failure for a store that can't be used, with all causes.
#[must_use]
pub fn fault(error: &dyn std::error::Error) -> Failure {
    let mut failure = Failure::new(errors::STORE_FAULT, error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        failure = failure.why(error.to_string());
        cause = error.source();
    }
    failure
}
