//! Copies a store, in use or not, into one file: the database at one point in time, the blobs, and
//! files beside it. Commits go on meanwhile. Never overwrites a file.

use std::path::{Path, PathBuf};

use gpool_model::Revision;
use rusqlite::Connection;
use rusqlite::backup::StepResult;

use crate::blobs::BlobFiles;
use crate::create::{self, Paths};
use crate::error::{BackupError, LoadError, OpenError};
use crate::{database, extra_files, file, load};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The last commit in it.
    pub revision: Revision,
    /// How many records are in it.
    pub n_records: usize,
    /// How many blobs are in it.
    pub n_blobs: usize,
    /// How many files from beside the store are in it.
    pub n_extra_files: usize,
}

// Only in backups; a restored store has its blobs as files again.
const BLOB_TABLES: &str = "
CREATE TABLE blob (id TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
CREATE TABLE blob_key (key BLOB NOT NULL) STRICT;
";

/// Copies the store in state folder `dir` to the new file `to`, for its owner alone, with the files
/// of the folder that have these names.
///
/// # Errors
/// If there is an error, no file `to` is left.
pub fn backup(dir: &Path, to: &Path, extra_names: &[&str]) -> Result<Backup, BackupError> {
    if file::is_there(to) {
        return Err(BackupError::Exists { path: to.to_owned() });
    }
    let paths = Paths::of(dir);
    let source = database::connect(&database::database_of(dir)?)?;
    let temporary = temporary_name(to);
    let made = copy(&paths, &source, to, &temporary, extra_names).and_then(|made| {
        create::publish(&temporary, to).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => BackupError::Exists { path: to.to_owned() },
            _ => write_error(to, &error),
        })?;
        Ok(made)
    });
    if made.is_err() {
        // Best effort: the first error is the one to report.
        let _ = file::remove_if_there(&temporary);
    }
    made
}

/// A name of this process alone, so that two backups do not collide.
fn temporary_name(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}

fn write_error(path: &Path, error: &dyn std::fmt::Display) -> BackupError {
    BackupError::Write { path: path.to_owned(), what: error.to_string() }
}

fn copy(
    paths: &Paths,
    source: &Connection,
    to: &Path,
    temporary: &Path,
    extra_names: &[&str],
) -> Result<Backup, BackupError> {
    let write = |error: rusqlite::Error| match OpenError::sqlite("write", to, &error) {
        OpenError::StorageFull { .. } => write_error(to, &"no space left: free some space"),
        _ => write_error(to, &error),
    };
    let files = match file::is_there(&paths.blobs) {
        true => Some(BlobFiles::open(&paths.blobs)?),
        false => None,
    };
    // Before the database, so that all blobs that it names are still there afterwards.
    let _kept = files.as_ref().map(BlobFiles::keep).transpose()?;
    let mut copy = create::fresh_database(temporary).map_err(|error| write_error(to, &error))?;
    copy_database(source, &mut copy).map_err(write)?;
    let (_, loaded) = load::load(&copy).map_err(|error| match error {
        LoadError::Damaged(what) => BackupError::Damaged(what),
        other => write_error(to, &other),
    })?;
    let mut n_blobs = 0;
    if let Some(files) = files {
        let transaction = copy.transaction().map_err(write)?;
        transaction.execute_batch(BLOB_TABLES).map_err(write)?;
        transaction.execute("INSERT INTO blob_key VALUES (?1)", [files.key]).map_err(write)?;
        for id in files.list()? {
            let bytes = files.get(&id)?;
            transaction
                .prepare_cached("INSERT INTO blob VALUES (?1, ?2)")
                .and_then(|mut insert| insert.execute((id.as_str(), bytes)))
                .map_err(write)?;
            n_blobs += 1;
        }
        transaction.commit().map_err(write)?;
    }
    let n_extra_files = extra_files::copy(&paths.dir, extra_names, &mut copy)
        .map_err(|error| write_error(to, &error))?;
    copy.close().map_err(|(_, error)| write(error))?;
    let n_records = loaded.records.len();
    Ok(Backup { revision: loaded.revision, n_records, n_blobs, n_extra_files })
}

/// Copies all pages at one point in time into a single file.
pub fn copy_database(source: &Connection, copy: &mut Connection) -> rusqlite::Result<()> {
    // In one step: a commit in between would restart the copy, for ever under load.
    let step = rusqlite::backup::Backup::new(source, copy)?.step(-1)?;
    if step != StepResult::Done {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            Some("the database is locked by another program".to_owned()),
        ));
    }
    copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
}
