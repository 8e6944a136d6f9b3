//! Errors of the store. None of them concerns scheduling: the caller reports them and continues.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a call failed. Data that was written before stays.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something else has the name of the file.
    #[error("{path} is not a utilization history ({what}): move it away, or choose another path")]
    NotAHistory { path: PathBuf, what: String },
    /// A gpool with another format wrote the file.
    #[error(
        "{path} has the format {found} of another gpool, and this one supports {supported}: move \
         it away to start a new history, or use that gpool"
    )]
    OtherFormat {
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format of this gpool.
        supported: u32,
    },
    #[error("there is no utilization history in {path}: the server creates it")]
    Missing { path: PathBuf },
    /// The disk is full, or the file has its largest size.
    #[error(
        "no space for utilization history: free disk space, or raise its limit; minutes until \
         then are lost"
    )]
    Full,
    /// Another program holds the file.
    #[error("another program has the utilization history locked: close it")]
    Busy,
    #[error(
        "the utilization history is damaged ({what}): the server moves it aside and starts anew"
    )]
    Damaged { what: String },
    #[error("can't {doing} {path}: {source}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    /// SQLite refuses for another reason.
    #[error("can't use the utilization history: {0}")]
    Database(String),
    /// The answer would be too large.
    #[error(
        "the chart has {n_cells} values, more than {limit}: choose a longer step, a shorter range, \
         or fewer lines"
    )]
    TooWide { n_cells: usize, limit: usize },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { what: error.to_string() }
            }
            _ => match error {
                // A value of another type than was written.
                rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::FromSqlConversionFailure(..) => {
                    Self::Damaged { what: error.to_string() }
                }
                other => Self::Database(other.to_string()),
            },
        }
    }
}
