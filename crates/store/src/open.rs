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
use crate::head::Head;
use crate::load::{self, Disagreement, Loaded};
use crate::lock::Lock;
use crate::mark::{Mark, MarkFile};
use crate::presence::Presence;
use crate::reader::Reader;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Makes a new store in a folder that has none.
    pub create: bool,
    /// After how many commits the mark is synced. Only a power cut can take it back that far; a
    /// killed server takes nothing back.
    pub mark_sync_every: u32,
    /// How many entries of the journal are kept at least. Older ones are dropped, some at a time.
    pub journal_keep: u64,
}

impl Default for Options {
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
    pub(crate) presence: Presence,
    // False once damage was seen: then nothing is written any more, not even on the way out.
    pub(crate) sound: bool,
    // Last, so that it is let go of after everything else.
    _lock: Lock,
}

impl Store {
    /// Opens the store in `dir`, or makes one if the folder never had any.
    ///
    /// # Errors
    /// Each with the way out; nothing was changed then.
    pub fn open(dir: &Path, options: &Options) -> Result<(Self, Loaded), OpenError> {
        let lock = Lock::take(dir, options.create)?;
        fail::fail_point!("store-open-locked");
        let paths = Paths::of(dir);
        if !crate::file::is_there(&paths.database) {
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
        let connection = connect(&paths.database)?;
        check_schema(&connection, &paths.database)?;
        let (head, loaded) = load_all(&connection, &paths.database)?;
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
        let presence = Presence::of(&paths);
        let sound = true;
        Ok((Self { paths, connection, head, mark, keep, presence, sound, _lock: lock }, loaded))
    }

    /// A connection of its own for reading, for any thread.
    ///
    /// # Errors
    /// If the database can't be opened once more.
    pub fn reader(&self) -> Result<Reader, OpenError> {
        Reader::open(&self.paths.dir)
    }

    /// The blobs beside the database.
    ///
    /// # Errors
    /// If their folder can't be read or made.
    pub fn blobs(&self) -> Result<Blobs, BlobError> {
        Blobs::open(&self.paths.dir)
    }

    /// Tells whether the store's files are still those that it has open, for any thread.
    #[must_use]
    pub fn presence(&self) -> Presence {
        self.presence.clone()
    }

    /// Drops what is known and loads it again, as after a failed commit.
    ///
    /// # Errors
    /// If what is stored can't be read or is not what was committed.
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
        let folded = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(|error| io::Error::other(error.to_string()));
        // All commits are durable already; this only saves the next start some work.
        if let Err(error) = synced.and(folded) {
            tracing::warn!(path = %self.paths.dir.display(), %error, "store closed untidily");
        }
    }
}

fn connect(path: &Path) -> Result<Connection, OpenError> {
    let connect = || {
        let connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        // For others who look in, such as the sqlite3 shell.
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
            what: format!("journal {}: not the one that was committed", mark.seq),
        }),
    }
}

/// What is found whole is set up for writing.
fn settle(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    fs::set_permissions(path, Permissions::from_mode(0o600))
        .map_err(|error| OpenError::io("set the permissions of", path, error))?;
    connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        .and_then(|()| connection.pragma_update(None, "synchronous", "FULL"))
        // A log that a long backup let grow is cut back to this at the next occasion.
        .and_then(|()| {
            connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))
        })
        .map_err(|error| OpenError::sqlite("set up", path, &error))
}

/// What the journal of an open store is cut back to.
pub struct Keep {
    /// Entries that are kept at least.
    pub n_entries: u64,
    /// The last entry that is not kept any more.
    pub start: Seq,
    /// Nothing is tried before the journal has come to this entry: a disk that failed once is not
    /// asked again at once.
    pub rest_until: Seq,
}
