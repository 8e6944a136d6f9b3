//! Brings the tables of a store that was loaded and found whole to a newer layout. What it was is
//! kept in a file beside it, so that there is a way back; all steps are one transaction, so that
//! whoever kills it in between finds the old layout or the new one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::backup::copy_database;
use crate::create::{self, Paths};
use crate::error::OpenError;
use crate::file;
use crate::head::Head;
use crate::schema::{Migration, migrate};

/// Takes the steps that the store of `head` lacks.
///
/// # Errors
/// The layout is what it was then.
pub fn upgrade(
    connection: &mut Connection,
    paths: &Paths,
    head: &Head,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    let path = &paths.database;
    // Only what is whole is changed: otherwise damage would be carried into the new layout.
    let whole: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| OpenError::sqlite("read", path, &error))?;
    if whole != "ok" {
        return Err(OpenError::Damaged { path: path.clone(), what: whole });
    }
    let kept = kept_path(path, head.schema);
    match keep(connection, &kept) {
        Ok(()) => tracing::info!(
            kept = %kept.display(), schema = head.schema,
            "kept the store as it is; it may be deleted once there is no wish to go back"
        ),
        // Whoever has no room for it may have a backup, and needs a server.
        Err(OpenError::StorageFull { .. }) => tracing::warn!(
            schema = head.schema,
            "no room to keep the store as it is: only a backup leads back to the gpool before"
        ),
        Err(error) => return Err(error),
    }
    migrate(connection, head, migrations)
        .map_err(|error| OpenError::sqlite("upgrade", path, &error))
}

/// Where the store of an older layout is kept.
fn kept_path(database: &Path, schema: u32) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(format!(".schema-{schema}"));
    name.into()
}

/// Copies the database. What an upgrade before this one kept is older and is replaced.
fn keep(connection: &Connection, to: &Path) -> Result<(), OpenError> {
    let temporary = Paths::temporary(to);
    let kept = copy(connection, &temporary).and_then(|()| {
        fs::rename(&temporary, to)
            .and_then(|()| file::sync_dir(file::parent(to)))
            .map_err(|error| OpenError::io("make", to, error))
    });
    if kept.is_err() {
        // Best effort: the first error is the one to tell, and a left-over is taken over later.
        let _: io::Result<()> = file::remove_if_there(&temporary);
    }
    kept
}

fn copy(connection: &Connection, to: &Path) -> Result<(), OpenError> {
    let write = |error: rusqlite::Error| OpenError::sqlite("write", to, &error);
    let mut copy = create::fresh_database(to)?;
    copy_database(connection, &mut copy).map_err(write)?;
    copy.close().map_err(|(_, error)| write(error))?;
    File::open(to)
        .and_then(|file| file.sync_all())
        .map_err(|error| OpenError::io("write", to, error))
}

#[cfg(test)]
mod tests;
