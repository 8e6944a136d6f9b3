//! Tables of comma-separated values with a header line, plain or compressed, read line by line.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use csv::{Reader, ReaderBuilder, StringRecord};
use flate2::read::MultiGzDecoder;

/// An error in a file, with its place.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {cause}", file.display(), place(*line, column.as_deref()))]
pub struct TraceError {
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// The name of the column.
    pub column: Option<String>,
    /// The error.
    pub cause: Cause,
}

/// The kinds of errors.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The file can't be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// The file ends too early.
    #[error("the compressed file is cut off")]
    CutOff,
    /// The file is not a table.
    #[error("{0}")]
    NoTable(String),
    /// A column is missing.
    #[error("there is no column {wanted:?}; the columns are {}", .there.join(", "))]
    NoColumn {
        /// The name of the missing column.
        wanted: String,
        /// The existing columns.
        there: Vec<String>,
    },
    /// A cell has an unexpected value.
    #[error("{found:?} is not {expected}")]
    Malformed {
        /// The value.
        found: String,
        /// The expected value.
        expected: String,
    },
}

fn place(line: Option<u64>, column: Option<&str>) -> String {
    match (line, column) {
        (None, _) => String::new(),
        (Some(line), None) => format!(":{line}"),
        (Some(line), Some(column)) => format!(":{line}, column {column}"),
    }
}

/// A table, read line by line.
pub(crate) struct Table {
    file: PathBuf,
    reader: Reader<Box<dyn Read>>,
    names: Vec<String>,
    record: StringRecord,
}

impl Table {
    /// Opens a file; recognises gzip by its first bytes.
    ///
    /// # Errors
    /// If the file can't be read, or has no header line.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let fail = |error: io::Error| TraceError {
            file: path.to_owned(),
            line: None,
            column: None,
            cause: Cause::Unreadable(error),
        };
        let mut file = BufReader::new(File::open(path).map_err(fail)?);
        let is_compressed =
            io::BufRead::fill_buf(&mut file).map_err(fail)?.starts_with(b"\x1f\x8b");
        let input: Box<dyn Read> = match is_compressed {
            true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
            false => Box::new(file),
        };
        // A line with too few columns is reported with the names of the missing ones.
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(input);
        let names = match reader.headers() {
            Ok(names) => names.iter().map(|name| name.trim().to_owned()).collect(),
            Err(error) => return Err(broken(path, error)),
        };
        Ok(Self { file: path.to_owned(), reader, names, record: StringRecord::new() })
    }

    /// Returns the index of a column.
    ///
    /// # Errors
    /// If there is no column with this name.
    pub fn column(&self, name: &str) -> Result<usize, TraceError> {
        self.optional(name).ok_or_else(|| TraceError {
            file: self.file.clone(),
            line: Some(1),
            column: None,
            cause: Cause::NoColumn { wanted: name.to_owned(), there: self.names.clone() },
        })
    }

    /// Returns the index of a column that may be missing.
    pub fn optional(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|it| it == name)
    }

    /// Reads the next line; returns whether there is one.
    ///
    /// # Errors
    /// If the line can't be read.
    pub fn advance(&mut self) -> Result<bool, TraceError> {
        self.reader.read_record(&mut self.record).map_err(|error| broken(&self.file, error))
    }

    /// Returns the text of a column in this line.
    pub fn text(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or("").trim()
    }

    /// Parses the text of a column in this line.
    ///
    /// # Errors
    /// If the text has another form than expected.
    pub fn value<T: FromStr>(&self, column: usize, expected: &str) -> Result<T, TraceError> {
        self.text(column).parse().map_err(|_| self.malformed(column, expected))
    }

    /// The error for a cell with an unexpected value.
    pub fn malformed(&self, column: usize, expected: &str) -> TraceError {
        TraceError {
            file: self.file.clone(),
            line: self.record.position().map(csv::Position::line),
            column: self.names.get(column).cloned(),
            cause: Cause::Malformed {
                found: self.text(column).chars().take(60).collect(),
                expected: expected.to_owned(),
            },
        }
    }
}

fn broken(path: &Path, error: csv::Error) -> TraceError {
    let line = error.position().map(csv::Position::line);
    let cause = match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => Cause::CutOff,
        csv::ErrorKind::Io(error) => Cause::Unreadable(error),
        csv::ErrorKind::Utf8 { err, .. } => Cause::NoTable(format!("it is not text: {err}")),
        other => Cause::NoTable(format!("{other:?}")),
    };
    TraceError { file: path.to_owned(), line, column: None, cause }
}
