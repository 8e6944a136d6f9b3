//! Opens the store of a state folder: takes the lock, refuses a format that it does not know and
//! content that it can't trust, and loads. It writes nothing, not even a checkpoint, before it has
//! found all commits, so that the content of a damaged log can still be rescued.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use gpool_model::{Revision, Seq};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::blobs::Blobs;
use crate::chain::Walk;
use crate::create::{self, Paths};
use crate::database::{check_file, check_schema};
use crate::error::{BlobError, LoadError, OpenError};
use crate::file;
use crate::head::Head;
use crate::load::{self, Disagreement, Loaded};
use crate::lock::Lock;
use crate::mark::{Mark, MarkFile};
use crate::presence::StoreFiles;
use crate::reader::Reader;
use crate::reserve::{Reserve, Room};
use crate::spare::{self, Spare};

#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Makes a new store in a folder that has none.
    pub create: bool,
    /// After how many commits the mark is synced. Only a power failure can move the mark back by
    /// that many commits; killing the server does not.
    pub mark_sync_every: u32,
    /// The least number of journal entries that are kept. Older ones are dropped in batches.
    pub journal_keep: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { create: true, mark_sync_every: 256, journal_keep: 1_000_000 }
    }
}

/// The store of one state folder, open for writing by this process alone.
pub struct Store {
    pub(crate) paths: Paths,
    pub(crate) connection: Connection,
    pub(crate) head: Head,
    pub(crate) mark: MarkFile,
    pub(crate) keep: Keep,
    pub(crate) presence: StoreFiles,
    pub(crate) reserve: Reserve,
    pub(crate) spare: Spare,
    // False after damage was found: from then on nothing is written, not even on close.
    pub(crate) sound: bool,
    // The last field, so that the lock is released after everything else.
    _lock: Lock,
}

impl Store {
    /// Opens the store in `dir`, or makes one if the folder never had any.
    ///
    /// # Errors
    /// Each error says what to do; the store is unchanged.
    pub fn open(dir: &Path, options: &StoreOptions) -> Result<(Self, Loaded), OpenError> {
        let lock = Lock::take(dir, options.create)?;
        file::disable_copy_on_write(dir);
        fail::fail_point!("store-open-locked");
        let paths = Paths::of(dir);
        if !file::is_there(&paths.database) {
            if let Some(sign) = paths.sign_of_a_store() {
                let (path, sign) = (paths.database.clone(), sign.to_owned());
                return Err(OpenError::Vanished { path, sign });
            }
            if !options.create {
                return Err(OpenError::NoStore { path: dir.to_owned() });
            }
            create::create(&paths)?;
        }
        check_file(&paths.database)?;
        // On a full disk it changes nothing, and `Room` reports that.
        let _ = spare::allocate_blocks(&paths.database);
        let (connection, head, loaded) = match connect_and_load(&paths.database) {
            // SQLite makes the index of the log anew, and another program may have taken its space.
            Err(OpenError::StorageFull { .. }) if Reserve::release(&paths).is_ok() => {
                connect_and_load(&paths.database)?
            }
            other => other?,
        };
        fail::fail_point!("store-open-loaded");
        check_mark(&connection, &paths, &head)?;
        settle(&connection, &paths.database)?;
        let start = Walk::start(&connection)
            .map_err(|error| OpenError::sqlite("read", &paths.database, &error))?
            .seq;
        let keep = Keep { n_entries: options.journal_keep, start, rest_until: Seq(0) };
        let mark = MarkFile::open(&paths.mark, options.mark_sync_every)
            .map_err(|error| OpenError::io("open", &paths.mark, error))?;
        fail::fail_point!("store-open-done");
        let presence = StoreFiles::of(&paths);
        let mut reserve = Reserve::of(&paths);
        reserve.fill();
        let spare = Spare::of(&connection, reserve.size());
        let mut store = Self {
            paths,
            connection,
            head,
            mark,
            keep,
            presence,
            reserve,
            spare,
            sound: true,
            _lock: lock,
        };
        store.fill_spare();
        Ok((store, loaded))
    }

    /// Opens another connection for reading, for any thread.
    pub fn reader(&self) -> Result<Reader, OpenError> {
        Reader::open(&self.paths.dir)
    }

    /// The blobs beside the database.
    pub fn blobs(&self) -> Result<Blobs, BlobError> {
        Blobs::open(&self.paths.dir)
    }

    /// Returns a check that the store's files are still the open ones, for any thread.
    #[must_use]
    pub fn presence(&self) -> StoreFiles {
        self.presence.clone()
    }

    /// Returns a check for free space, for any thread.
    #[must_use]
    pub fn room(&self) -> Room {
        self.reserve.room()
    }

    /// Makes the reserve of space complete again, if there is room.
    pub fn fill_reserve(&mut self) {
        self.reserve.fill();
        self.fill_spare();
    }

    /// Drops the state in memory and loads it again, as after a failed commit.
    ///
    /// # Errors
    /// If the stored data can't be read or differs from the committed data.
    pub fn reload(&mut self) -> Result<Loaded, LoadError> {
        match load::load(&self.connection) {
            Ok((head, loaded)) => {
                self.head = head;
                Ok(loaded)
            }
            Err(error) => {
                self.sound &= !matches!(error, LoadError::Damaged(_));
                Err(error)
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.sound {
            return;
        }
        let synced = self.mark.sync();
        // On a full disk, a log that was cut would lose its reserve to another program.
        let how = if self.reserve.is_whole() { "TRUNCATE" } else { "PASSIVE" };
        let folded = self
            .connection
            .query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()))
            .map_err(|error| io::Error::other(error.to_string()));
        // For the next server, which may start on a full disk.
        self.reserve.fill();
        // All commits are durable already; this only speeds up the next start.
        if let Err(error) = synced.and(folded) {
            tracing::warn!(path = %self.paths.dir.display(), %error, "can't close the store");
        }
    }
}

fn connect(path: &Path) -> Result<Connection, OpenError> {
    let connect = || {
        let connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        // Waits for other programs that have the database open, such as the sqlite3 shell.
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        let read_only = connection.is_readonly("main")?;
        Ok((connection, read_only))
    };
    match connect() {
        Ok((_, true)) => Err(OpenError::ReadOnly { path: path.to_owned() }),
        Ok((connection, false)) => Ok(connection),
        Err(error) => Err(OpenError::sqlite("open", path, &error)),
    }
}

fn connect_and_load(path: &Path) -> Result<(Connection, Head, Loaded), OpenError> {
    let connection = connect(path)?;
    check_schema(&connection, path)?;
    let (head, loaded) = load_all(&connection, path)?;
    Ok((connection, head, loaded))
}

fn load_all(connection: &Connection, path: &Path) -> Result<(Head, Loaded), OpenError> {
    load::load(connection).map_err(|error| match error {
        LoadError::Damaged(what) => OpenError::Damaged { path: path.to_owned(), what },
        other => {
            OpenError::Io { doing: "read", path: path.to_owned(), source: io::Error::other(other) }
        }
    })
}

fn check_mark(connection: &Connection, paths: &Paths, head: &Head) -> Result<(), OpenError> {
    let wrong = |what: &str| OpenError::Mark { path: paths.mark.clone(), what: what.to_owned() };
    let mark = match Mark::read(&paths.mark) {
        Ok(Some(mark)) => mark,
        // Nothing was ever committed, so nothing can be lost.
        Ok(None) if head.revision == Revision(0) => {
            return create::create_mark(paths, &Mark::of(head));
        }
        Ok(None) => return Err(wrong("is missing")),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(wrong("is damaged"));
        }
        Err(error) => return Err(OpenError::io("read", &paths.mark, error)),
    };
    let disagreement = load::compare_with_mark(connection, head, &mark)
        .map_err(|error| OpenError::sqlite("read", &paths.database, &error))?;
    match disagreement {
        None => Ok(()),
        Some(Disagreement::OtherStore) => Err(wrong("belongs to another store")),
        Some(Disagreement::Lost) => Err(OpenError::LostCommits {
            path: paths.database.clone(),
            found: head.revision,
            committed: mark.revision,
        }),
        Some(Disagreement::Diverged) => Err(OpenError::Damaged {
            path: paths.database.clone(),
            what: format!("journal {}: it differs from the committed entry", mark.seq),
        }),
    }
}

/// Sets up a sound database for writing.
fn settle(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    fs::set_permissions(path, Permissions::from_mode(0o600))
        .map_err(|error| OpenError::io("set the permissions of", path, error))?;
    connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        .and_then(|()| connection.pragma_update(None, "synchronous", "FULL"))
        // Truncates a log that grew during a long backup to this size at the next checkpoint.
        .and_then(|()| {
            connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))
        })
        .map_err(|error| OpenError::sqlite("set up", path, &error))
}

/// The part of the journal that an open store keeps.
pub struct Keep {
    /// The least number of entries to keep.
    pub n_entries: u64,
    /// The last dropped entry.
    pub start: Seq,
    /// After a failure, the store drops nothing more before the journal reaches this entry: a disk
    /// that failed gets time.
    pub rest_until: Seq,
}
