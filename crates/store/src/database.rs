//! The database file of a store: its path, checks that this gpool can read it, and a connection for
//! reading.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::create::Paths;
use crate::error::OpenError;
use crate::schema::{APPLICATION_ID, SCHEMA};

/// The first bytes of a database.
/// Source: SQLite, "Database File Format", 1.3.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Refuses a file that is not a database of gpool, by its first bytes, before SQLite opens it.
pub fn check_file(path: &Path) -> Result<(), OpenError> {
    let io_error = |error| OpenError::io("read", path, error);
    let not_a_store =
        |what: &str| OpenError::NotAStore { path: path.to_owned(), what: what.to_owned() };
    let damaged = |what: &str| OpenError::Damaged { path: path.to_owned(), what: what.to_owned() };
    let metadata = fs::symlink_metadata(path).map_err(io_error)?;
    if !metadata.is_file() {
        return Err(not_a_store("it is not a regular file"));
    }
    let mut start = [0; 100];
    let mut file = File::open(path).map_err(io_error)?;
    match file.read_exact(&mut start) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let n_read = usize::try_from(metadata.len()).unwrap_or(0).min(MAGIC.len());
            if start[..n_read] != MAGIC[..n_read] {
                return Err(not_a_store("it is not a SQLite database"));
            }
            let what = format!("it has {} bytes, too few for a database", metadata.len());
            return Err(damaged(&what));
        }
        other => other.map_err(io_error)?,
    }
    if !start.starts_with(MAGIC) {
        return Err(not_a_store("it is not a SQLite database, or its beginning was overwritten"));
    }
    if start[68..72] != APPLICATION_ID.to_be_bytes() {
        return Err(not_a_store("it is the SQLite database of another program"));
    }
    Ok(())
}

/// Refuses a store whose format is of another version.
pub fn check_schema(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let sqlite = |error| OpenError::sqlite("read", path, &error);
    let version: u32 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sqlite)?;
    let (found, written_by): (u32, String) = connection
        .query_row("SELECT schema, written_by FROM meta", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(sqlite)?;
    if found != version {
        let what = format!("meta: schema {found}, but the file says {version}");
        return Err(OpenError::Damaged { path: path.to_owned(), what });
    }
    if found != SCHEMA {
        return Err(OpenError::OtherSchema { path: path.to_owned(), found, written_by });
    }
    Ok(())
}

/// Returns the database at `path`: the file itself, or the one in a state folder.
pub fn database_of(path: &Path) -> Result<std::path::PathBuf, OpenError> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => OpenError::NoStore { path: path.to_owned() },
        _ => OpenError::io("look at", path, error),
    })?;
    if !metadata.is_dir() {
        return Ok(path.to_owned());
    }
    let paths = Paths::of(path);
    if crate::file::is_there(&paths.database) {
        return Ok(paths.database);
    }
    match paths.sign_of_a_store() {
        Some(sign) => Err(OpenError::Vanished { sign: sign.to_owned(), path: paths.database }),
        None => Err(OpenError::NoStore { path: path.to_owned() }),
    }
}

/// Opens a database for reading only.
pub fn connect(path: &Path) -> Result<Connection, OpenError> {
    check_file(path)?;
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .and_then(|connection| {
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "cell_size_check", true)?;
        Ok(connection)
    })
    .map_err(|error| OpenError::sqlite("open", path, &error))?;
    check_schema(&connection, path)?;
    Ok(connection)
}
