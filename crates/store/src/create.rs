//! Makes a new, empty store under a temporary name and publishes it as a whole. Never overwrites a
//! file: `open` and `restore` decide whether a store may exist.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::head::Head;
use crate::mark::Mark;
use crate::schema::{APPLICATION_ID, SCHEMA, make_tables};
use crate::{file, spare};

pub struct Paths {
    /// The state folder.
    pub dir: PathBuf,
    pub database: PathBuf,
    /// The database's log.
    pub log: PathBuf,
    pub mark: PathBuf,
    pub blobs: PathBuf,
}

impl Paths {
    /// The files of the store in `dir`.
    pub fn of(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            database: dir.join("store.db"),
            log: dir.join("store.db-wal"),
            mark: dir.join("mark"),
            blobs: dir.join("blobs"),
        }
    }

    /// Returns the temporary path of a new database or mark. A file left there by a crash was never
    /// in use, and is replaced.
    pub fn temporary(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        name.into()
    }

    /// Returns a file that only a store has, in case the database itself is missing.
    pub fn sign_of_a_store(&self) -> Option<&Path> {
        [&self.mark, &self.log, &self.blobs]
            .into_iter()
            .find(|path| file::is_there(path))
            .map(PathBuf::as_path)
    }
}

/// Makes a new database for its owner alone, to be published when it is complete.
pub fn fresh_database(path: &Path) -> Result<Connection, OpenError> {
    file::remove_if_there(path)
        .and_then(|()| file::create_private(path))
        .map_err(|error| OpenError::io("make", path, error))?;
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(|error| OpenError::sqlite("make", path, &error))?;
    // It is not published yet, so a crash loses nothing, and no journal file is left beside it. It
    // is synced once, at the end.
    connection
        .pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))
        .and_then(|()| connection.pragma_update(None, "synchronous", "OFF"))
        .map_err(|error| OpenError::sqlite("make", path, &error))?;
    Ok(connection)
}

pub fn create(paths: &Paths) -> Result<(), OpenError> {
    fail::fail_point!("store-create-begin");
    let temporary = Paths::temporary(&paths.database);
    let store_id = file::random().map_err(|error| OpenError::io("make", &paths.database, error))?;
    let head = Head::new(SCHEMA, store_id);
    let mut connection = fresh_database(&temporary)?;
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .and_then(|()| make_tables(&mut connection, &head))
        .and_then(|()| spare::make(&mut connection, spare::goal(spare::log_reserve_in(&paths.dir))))
        .and_then(|()| connection.close().map_err(|(_, error)| error))
        .map_err(|error| OpenError::sqlite("make", &temporary, &error))?;
    spare::allocate_blocks(&temporary).map_err(|error| OpenError::io("make", &temporary, error))?;
    fail::fail_point!("store-create-made");
    // A crash between the two leaves a store at revision 0 without a mark; `open` repairs that.
    publish(&temporary, &paths.database)
        .map_err(|error| OpenError::io("make", &paths.database, error))?;
    fail::fail_point!("store-create-published");
    create_mark(paths, &Mark::of(&head))
}

/// Makes a database durable and gives it its final name.
pub fn publish(temporary: &Path, path: &Path) -> io::Result<()> {
    std::fs::File::open(temporary)?.sync_all()?;
    file::publish(temporary, path)
}

/// Makes the mark file of a store.
pub fn create_mark(paths: &Paths, mark: &Mark) -> Result<(), OpenError> {
    mark.create(&paths.mark, &Paths::temporary(&paths.mark))
        .map_err(|error| OpenError::io("make", &paths.mark, error))
}
