//! Errors of the store, each with a message that says what to do. The caller decides how to react.

use std::io;
use std::path::{Path, PathBuf};

use gpool_model::{Revision, Term};
use rusqlite::ffi;

use crate::blob_id::BlobId;
use crate::file;

/// Why a store could not be opened. The store is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path is not a folder.
    #[error("{path} is not a folder: choose another state folder, or move the file away")]
    NotADirectory { path: PathBuf },
    /// Reading or writing is not allowed.
    #[error("no permission to use {path}: run as its owner, or choose another state folder")]
    Permission { path: PathBuf },
    /// The file system or the file is read-only.
    #[error("{path} is read-only: remount it writable, or choose another state folder")]
    ReadOnly { path: PathBuf },
    /// Other users could replace files in the folder.
    #[error(
        "other users can write to {path} (mode {mode:03o}): run `chmod go-w`, or choose a folder \
         of your own"
    )]
    Exposed { path: PathBuf, mode: u32 },
    /// The folder belongs to another user, so that user could replace files in it.
    #[error("{path} belongs to user {owner}: run as that user, or choose a folder of your own")]
    NotOwned {
        path: PathBuf,
        /// The owner's user ID.
        owner: u32,
    },
    /// Another process has the store open.
    #[error("{path} is in use by {}: use that server, or stop it with `gpool down`", holder(*pid))]
    Held {
        path: PathBuf,
        /// The process in the lock file, if any.
        pid: Option<u32>,
    },
    /// There is no store, and `create` was not set.
    #[error(
        "no store in {path}: start a server on it with `gpool up`, or `gpool restore` a backup"
    )]
    NoStore { path: PathBuf },
    /// There was a store, but its database is missing.
    #[error(
        "{path} is missing, but {sign} shows that it existed: put it back, or `gpool restore` a \
         backup; to start from scratch, choose an empty folder"
    )]
    Vanished {
        path: PathBuf,
        /// The file that shows that there was one.
        sign: PathBuf,
    },
    /// A gpool with another stored format wrote the file.
    #[error(
        "{path} was written by {} gpool ({written_by}, schema {found}; this one supports {}): use \
         that gpool, `gpool restore` a backup of schema {}, or choose another state folder",
        if *found > crate::SCHEMA { "a newer" } else { "an older" },
        crate::SCHEMA,
        crate::SCHEMA
    )]
    OtherSchema {
        path: PathBuf,
        /// The version of its format.
        found: u32,
        written_by: String,
    },
    /// The file is not a store.
    #[error("{path} is not a gpool store ({what}): move it away, or choose another state folder")]
    NotAStore { path: PathBuf, what: String },
    /// The file is a damaged store.
    #[error(
        "{path} is damaged: {what}; nothing was changed: list all damage with `gpool verify`, then \
         `gpool restore` a backup"
    )]
    Damaged { path: PathBuf, what: String },
    /// The database ends before commits that were acknowledged.
    #[error(
        "{path} lost its last commits: it ends at revision {found}, but revision {committed} was \
         committed; nothing was changed: look for its lost `-wal` file, or `gpool restore` a backup"
    )]
    LostCommits {
        path: PathBuf,
        /// The last revision of the database.
        found: Revision,
        committed: Revision,
    },
    /// The mark is missing, damaged or from another store, so lost commits could go unnoticed.
    #[error(
        "{path} {what}, so gpool can't check that the database has its last commits: put the right \
         file back, or move the database away and `gpool restore` it from there"
    )]
    Mark { path: PathBuf, what: String },
    /// No space to make or open the store.
    #[error("no space left for {path}: free some space, or choose another state folder")]
    StorageFull {
        /// The file that could not be written.
        path: PathBuf,
    },
    #[error("can't {doing} {path}")]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl OpenError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { path },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ if file::is_no_space(&source) => Self::StorageFull { path },
            _ => Self::Io { doing, path, source },
        }
    }

    pub(crate) fn sqlite(doing: &'static str, path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        match Trouble::of(error, &path) {
            Trouble::StorageFull => Self::StorageFull { path },
            Trouble::ReadOnly => Self::ReadOnly { path },
            Trouble::NotADatabase => Self::NotAStore { path, what: error.to_string() },
            Trouble::Corrupt => Self::Damaged { path, what: error.to_string() },
            Trouble::Other if denied(error) => Self::Permission { path },
            Trouble::Other => Self::Io { doing, path, source: io::Error::other(error.to_string()) },
        }
    }
}

fn denied(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ffi::ErrorCode::PermissionDenied | ffi::ErrorCode::CannotOpen)
    )
}

/// Why the stored data could not be loaded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// The stored data differs from the committed data.
    #[error("the store is damaged: {0}; list all damage with `gpool verify`")]
    Damaged(String),
    /// The database could not be read.
    #[error("can't read the store: {0}")]
    Io(String),
    #[error("the store is closed")]
    Closed,
}

impl From<rusqlite::Error> for LoadError {
    fn from(error: rusqlite::Error) -> Self {
        match Trouble::of(&error, Path::new("")) {
            Trouble::Corrupt | Trouble::NotADatabase => Self::Damaged(error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}

/// Why a commit is not durable. Nothing of it was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// No space left, or the user's quota is used up. Continues without a restart once there is
    /// space.
    #[error(
        "no space left in the state folder: free some space; accepted jobs are stored, and jobs \
         can be ended"
    )]
    StorageFull,
    /// The file system or the file has become read-only.
    #[error("the state folder is read-only: remount it writable; accepted jobs are stored")]
    ReadOnly,
    /// The system failed to write or read.
    #[error("can't write the store: {0}: check the disk; accepted jobs are stored")]
    Io(String),
    #[error("the store is damaged: {0}; list all damage with `gpool verify`")]
    Corrupt(String),
    /// The files at the path are not the open ones.
    #[error(
        "{0} was removed or replaced while the server was running, and it can't store anything: \
         put it back, or stop the server with `gpool down` and `gpool restore` a backup"
    )]
    Replaced(PathBuf),
    /// A newer server has taken over.
    #[error("term {stale} has ended: a server with term {stored} has taken over")]
    Fenced { stored: Term, stale: Term },
    /// The commit does not follow the previous one: a bug of the caller.
    #[error("the commit does not follow the previous one: {0}")]
    OutOfOrder(String),
    #[error("the store is closed")]
    Closed,
}

impl CommitError {
    pub(crate) fn sqlite(error: &rusqlite::Error, dir: &Path) -> Self {
        match Trouble::of(error, dir) {
            Trouble::StorageFull => Self::StorageFull,
            Trouble::ReadOnly => Self::ReadOnly,
            Trouble::Corrupt | Trouble::NotADatabase => Self::Corrupt(error.to_string()),
            Trouble::Other => Self::Io(error.to_string()),
        }
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// A row differs from the committed one.
    #[error("the store is damaged: {0}; list all damage with `gpool verify`")]
    Damaged(String),
    /// The database could not be read.
    #[error("can't read the store: {0}")]
    Io(String),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        match LoadError::from(error) {
            LoadError::Damaged(what) => Self::Damaged(what),
            other => Self::Io(other.to_string()),
        }
    }
}

/// Why a backup failed. No file is left under its name.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{path} exists and was not changed: choose another file")]
    Exists { path: PathBuf },
    /// The store could not be opened for reading.
    #[error(transparent)]
    Source(#[from] OpenError),
    /// The copied data differs from the committed data.
    #[error(
        "the store is damaged, so no backup was made: {0}; list all damage with `gpool verify`"
    )]
    Damaged(String),
    /// The backup could not be written.
    #[error("can't write {path}: {what}")]
    Write { path: PathBuf, what: String },
    /// A blob could not be read.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Why a restore failed. The previous store is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A store exists, and `put_aside` was not set.
    #[error(
        "{path} already has a store: choose an empty folder, or use `--put-aside` to keep the old \
         store under another name"
    )]
    Exists { path: PathBuf },
    #[error("there is no backup {path}: `gpool backup FILE` makes one while the server runs")]
    NoBackup { path: PathBuf },
    /// The file is not a backup.
    #[error("{path} is not a backup ({what}): give a file that `gpool backup` made")]
    NotABackup { path: PathBuf, what: String },
    #[error("no permission to read the backup {path}: run as its owner")]
    Unreadable { path: PathBuf },
    #[error("{path} is damaged and was not restored: {what}; try an older backup")]
    Damaged {
        path: PathBuf,
        /// The first finding.
        what: String,
    },
    /// The backup or the state folder could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A blob could not be written.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The state folder could not be written.
    #[error("can't restore into {path}: {what}; the old files are unchanged")]
    Write { path: PathBuf, what: String },
}

impl RestoreError {
    /// Why the backup could not be opened: the advice for a store does not fit a backup.
    pub(crate) fn of_backup(error: OpenError) -> Self {
        match error {
            OpenError::NoStore { path } => Self::NoBackup { path },
            OpenError::NotAStore { path, what } => Self::NotABackup { path, what },
            OpenError::Permission { path } => Self::Unreadable { path },
            OpenError::Damaged { path, what } => Self::Damaged { path, what },
            other => Self::Open(other),
        }
    }
}

/// Why a blob could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("blob {0} is missing: `gpool restore` a backup that has it")]
    Missing(BlobId),
    /// The file differs from the stored bytes.
    #[error("blob {0} is damaged: `gpool restore` a backup that has it")]
    Damaged(BlobId),
    /// The key for names is missing or damaged, and blobs exist.
    #[error(
        "{path} is {what}, but the names of stored blobs depend on it: restore it from a backup"
    )]
    Key { path: PathBuf, what: &'static str },
    /// The user has reached the limit for stored bytes.
    #[error("the user has {n_kept} bytes stored; {n_more} more would exceed the limit of {most}")]
    TooMuch {
        /// The bytes that the user has stored.
        n_kept: u64,
        n_more: u64,
        most: u64,
    },
    #[error("no space left for {path}: free some space")]
    StorageFull {
        /// The file that could not be written.
        path: PathBuf,
    },
    #[error("can't use {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl BlobError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if file::is_no_space(&source) {
            Self::StorageFull { path }
        } else {
            Self::Io { path, source }
        }
    }
}

/// The kinds of SQLite errors that the store distinguishes.
pub(crate) enum Trouble {
    StorageFull,
    ReadOnly,
    NotADatabase,
    Corrupt,
    Other,
}

impl Trouble {
    /// Classifies an error of a database in or at `path`.
    pub(crate) fn of(error: &rusqlite::Error, path: &Path) -> Self {
        match error.sqlite_error_code() {
            Some(ffi::ErrorCode::DiskFull) => Self::StorageFull,
            Some(ffi::ErrorCode::ReadOnly) => Self::ReadOnly,
            Some(ffi::ErrorCode::NotADatabase) => Self::NotADatabase,
            Some(ffi::ErrorCode::DatabaseCorrupt) => Self::Corrupt,
            // Errors in the log's shared memory and in delayed writes hide that the disk is full.
            Some(ffi::ErrorCode::SystemIoFailure) if file::is_full(path) => Self::StorageFull,
            // The same for a file system that became read-only while files were open.
            Some(ffi::ErrorCode::SystemIoFailure) if file::is_read_only(path) => Self::ReadOnly,
            // A value of a type, length or encoding that no commit wrote.
            None => Self::Corrupt,
            // Tables or columns are missing from a file that should have them.
            Some(ffi::ErrorCode::Unknown | ffi::ErrorCode::TypeMismatch) => Self::Corrupt,
            Some(_) => Self::Other,
        }
    }
}
