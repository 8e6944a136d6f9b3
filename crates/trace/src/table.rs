//! Tables of comma-separated values with a line of names, plain or compressed, read line by line.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use csv::{Reader, ReaderBuilder, StringRecord};
use flate2::read::MultiGzDecoder;

/// What is wrong with a file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {cause}", file.display(), place(*line, column.as_deref()))]
pub struct TraceError {
    /// Which file.
    pub file: PathBuf,
    /// Its line, counted from 1.
    pub line: Option<u64>,
    /// Its column, by name.
    pub column: Option<String>,
    /// What it is.
    pub cause: Cause,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// It can't be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// It stops before its end.
    #[error("the compressed file is cut off")]
    CutOff,
    /// It is no table.
    #[error("{0}")]
    NoTable(String),
    /// A column is missing.
    #[error("there is no column {wanted:?}; there are {}", .there.join(", "))]
    NoColumn {
        /// The one that was looked for.
        wanted: String,
        /// Those that there are.
        there: Vec<String>,
    },
    /// A cell does not say what it should.
    #[error("{found:?} is not {expected}")]
    Malformed {
        /// What it says.
        found: String,
        /// What it should.
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
    /// Opens a file; one that is compressed by gzip is known by how it begins.
    ///
    /// # Errors
    /// It can't be read or has no line of names.
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
        // A line with fewer columns is said to have fewer, with the names of those.
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(input);
        let names = match reader.headers() {
            Ok(names) => names.iter().map(|name| name.trim().to_owned()).collect(),
            Err(error) => return Err(broken(path, error)),
        };
        Ok(Self { file: path.to_owned(), reader, names, record: StringRecord::new() })
    }

    /// Where a column stands.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn column(&self, name: &str) -> Result<usize, TraceError> {
        self.optional(name).ok_or_else(|| TraceError {
            file: self.file.clone(),
            line: Some(1),
            column: None,
            cause: Cause::NoColumn { wanted: name.to_owned(), there: self.names.clone() },
        })
    }

    /// The same of one that need not be there.
    pub fn optional(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|it| it == name)
    }

    /// Goes to the next line, if there is one.
    ///
    /// # Errors
    /// It can't be read.
    pub fn advance(&mut self) -> Result<bool, TraceError> {
        self.reader.read_record(&mut self.record).map_err(|error| broken(&self.file, error))
    }

    /// What a column of this line says.
    pub fn text(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or("").trim()
    }

    /// The same as a number, or whatever else.
    ///
    /// # Errors
    /// It is not what was expected.
    pub fn value<T: FromStr>(&self, column: usize, expected: &str) -> Result<T, TraceError> {
        self.text(column).parse().map_err(|_| self.malformed(column, expected))
    }

    /// That a cell does not say what it should.
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
