//! The file: creation, checks, and the replacement of a damaged one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::Error;

/// The number of the format. A change of tables or encodings raises it.
const FORMAT: u32 = 1;
/// `gpuh`, in the header of the file.
const APPLICATION_ID: u32 = 0x6770_7568;
/// Bytes of a page.
pub const PAGE: u32 = 8192;
/// The longest wait for another program that has the file locked.
const WAIT: Duration = Duration::from_millis(500);

const TABLES: &str = "
BEGIN;
CREATE TABLE recent (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE block (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE name (
  kind INTEGER NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL, last_day INTEGER NOT NULL,
  PRIMARY KEY (kind, n)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX name_text ON name (kind, text);
COMMIT;";

pub struct Database {
    pub connection: Connection,
    /// Device and inode, to notice that the file was removed or replaced.
    identity: (u64, u64),
}

impl Database {
    /// Opens the file for writing and creates a missing one. A damaged file is renamed; the
    /// second value is then the reason.
    pub fn open(path: &Path, bytes_max: u64) -> Result<(Self, Option<String>), Error> {
        match Self::try_open(path, bytes_max) {
            Err(Error::Damaged { what }) => {
                set_aside(path)?;
                Ok((Self::try_open(path, bytes_max)?, Some(what)))
            }
            other => Ok((other?, None)),
        }
    }

    fn try_open(path: &Path, bytes_max: u64) -> Result<Self, Error> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(|error| Error::io("create", dir, error))?;
        }
        if !is_there_and_ours(path)? {
            create_file(path)?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WAIT)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Overwriting freed pages would double the writes of each prune.
        connection.pragma_update(None, "secure_delete", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))?;
        let n_pages =
            u32::try_from(bytes_max / u64::from(PAGE)).unwrap_or(u32::MAX).clamp(64, u32::MAX - 1);
        connection.pragma_update_and_check(None, "max_page_count", n_pages, |_| Ok(()))?;
        check(&connection, path)?;
        let metadata = fs::metadata(path).map_err(|error| Error::io("look at", path, error))?;
        Ok(Self { connection, identity: (metadata.dev(), metadata.ino()) })
    }

    /// Opens an existing file for reading.
    pub fn open_to_read(path: &Path) -> Result<Connection, Error> {
        if !is_there_and_ours(path)? {
            return Err(Error::Missing { path: path.to_owned() });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WAIT)?;
        check(&connection, path)?;
        Ok(connection)
    }

    /// True while the path still names the open file.
    pub fn is_in_place(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }

    /// Bytes in use, without free pages.
    pub fn bytes(&self) -> Result<u64, Error> {
        let count = |name: &str| -> Result<u32, rusqlite::Error> {
            self.connection.pragma_query_value(None, name, |row| row.get(0))
        };
        let n_pages = count("page_count")?.saturating_sub(count("freelist_count")?);
        Ok(u64::from(n_pages) * u64::from(PAGE))
    }
}

/// Renames a damaged file to `….damaged`, in place of an older one, and drops its log.
pub fn set_aside(path: &Path) -> Result<(), Error> {
    let kept = with_suffix(path, ".damaged");
    match fs::rename(path, &kept) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("rename", path, error))
        }
        _ => remove_logs(path),
    }
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Without this, SQLite could apply the log of a removed file to a new one.
fn remove_logs(path: &Path) -> Result<(), Error> {
    for ending in ["-wal", "-shm"] {
        let log = with_suffix(path, ending);
        match fs::remove_file(&log) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &log, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Readers see the file only with its tables.
fn create_file(path: &Path) -> Result<(), Error> {
    remove_logs(path)?;
    let draft = with_suffix(path, ".new");
    let mut options = fs::OpenOptions::new();
    let created = options.write(true).create(true).truncate(true).mode(0o600).open(&draft);
    created.map(drop).map_err(|error| Error::io("create", &draft, error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&draft, flags)?;
    connection.pragma_update(None, "page_size", PAGE)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.execute_batch(TABLES)?;
    connection.close().map_err(|(_, error)| error)?;
    fs::rename(&draft, path).map_err(|error| Error::io("create", path, error))
}

/// False if the file is missing or empty. Anything that is not a database of gpool is an error.
fn is_there_and_ours(path: &Path) -> Result<bool, Error> {
    let io_error = |error| Error::io("read", path, error);
    let foreign = |what: &str| Error::NotAHistory { path: path.to_owned(), what: what.to_owned() };
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(io_error)?,
    };
    if !metadata.is_file() {
        return Err(foreign("it is not a regular file"));
    }
    if metadata.len() == 0 {
        return Ok(false);
    }
    let mut start = [0; 100];
    let mut file = File::open(path).map_err(io_error)?;
    match file.read_exact(&mut start) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(Error::Damaged { what: "it is too short".to_owned() });
        }
        other => other.map_err(io_error)?,
    }
    if !start.starts_with(b"SQLite format 3\0") {
        return Err(Error::Damaged { what: "its beginning was overwritten".to_owned() });
    }
    // Zeros are a new file, before its first commit.
    let id = &start[68..72];
    if id == [0; 4] || id == APPLICATION_ID.to_be_bytes() {
        return Ok(true);
    }
    Err(foreign("it is the SQLite database of another program"))
}

/// Checks the format, and that the tables can be read. Reads a few pages, not the whole file.
fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > FORMAT {
        let path = path.to_owned();
        return Err(Error::OtherFormat { path, found, supported: FORMAT });
    }
    let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
    let n_tables: u32 = connection.query_row(tables, [], |row| row.get(0))?;
    if found < FORMAT || n_tables != 3 {
        return Err(Error::Damaged { what: "its tables are missing".to_owned() });
    }
    for table in ["recent", "block"] {
        // Two queries: SQLite reads a whole table to answer both in one.
        for end in ["min", "max"] {
            let query = format!("SELECT {end}(id) FROM {table}");
            connection.query_row(&query, [], |row| row.get::<_, Option<i64>>(0))?;
        }
    }
    Ok(())
}
