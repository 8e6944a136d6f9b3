//! `gpool backup`: copies the store into one file, whether a server uses it or not.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::json;
use crate::session::{Session, state_dir};

/// A file that begins so is a store.
const STORE: &[u8] = b"SQLite format 3\0";

/// Copy the store into one file; the server may go on meanwhile
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// The file to make; it must not be there yet
    #[arg(value_name = "FILE")]
    to: PathBuf,
    /// State folder of the server
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
}

/// Runs it.
///
/// # Errors
/// The store can't be read, or the file can't be written.
pub fn run(args: &BackupArgs, session: &Session) -> Result {
    let dir = state_dir(args.state_dir.as_deref())?;
    let made = gpool_store::backup(&dir, &args.to).map_err(|error| fault(&error))?;
    if session.global.json {
        let document = json!({
            "file": args.to,
            "revision": made.revision,
            "records": made.n_records,
            "blobs": made.n_blobs,
        });
        session.screen.data(&json::one(document))?;
    } else {
        session.screen.note(&format!(
            "{}: {} records and {} files as of revision {}",
            args.to.display(),
            made.n_records,
            made.n_blobs,
            made.revision
        ));
    }
    Ok(Exit::OK)
}

/// Whether that is a state folder or a backup, and no file of another kind.
///
/// # Errors
/// It is not there, or may not be read.
pub fn is_store(path: &Path) -> std::io::Result<bool> {
    if std::fs::metadata(path)?.is_dir() {
        return Ok(true);
    }
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(STORE.len() as u64).read_to_end(&mut head)?;
    Ok(head == STORE)
}

/// A store that can't be used, with every cause.
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
