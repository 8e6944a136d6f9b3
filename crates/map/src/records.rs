//! The records of the items of a map: a line of JSON for each that was recorded, failed or set
//! aside. A line that a crash cut off does not count.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ledger::{ItemNumber, Ledger};

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The item.
    pub id: ItemNumber,
    /// What happened.
    pub state: RecordState,
    /// What the program said of an item that it handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Failed tries so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// The item itself, if it is set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
}

impl Record {
    /// A record without details.
    #[must_use]
    pub fn new(id: ItemNumber, state: RecordState) -> Self {
        Self { id, state, result: None, why: None, tries: None, item: None }
    }
}

/// What happened to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordState {
    /// It was handled: the last word about it.
    Done,
    /// A try failed.
    Failed,
    /// Too many tries failed.
    SetAside,
    /// It was set aside before, and is tried again.
    Again,
}

/// The file of records.
#[derive(Debug)]
pub struct Records {
    file: File,
}

impl Records {
    /// Opens the file, and restores its records into the ledger.
    ///
    /// # Errors
    /// It can't be read or repaired.
    pub fn open(path: &Path, ledger: &mut Ledger) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
        let mut length = 0;
        let mut reader = BufReader::new(File::open(path)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 || !line.ends_with(b"\n") {
                break;
            }
            let record: Record = serde_json::from_slice(&line)?;
            length += line.len() as u64;
            match record.state {
                RecordState::Done => ledger.restore_done(record.id),
                RecordState::SetAside => ledger.restore_set_aside(record.id),
                RecordState::Failed => {
                    ledger.restore_tries(record.id, record.tries.unwrap_or_default());
                }
                RecordState::Again => ledger.restore_again(record.id),
            }
        }
        // Cuts off half a line.
        file.set_len(length)?;
        Ok(Self { file })
    }

    /// Appends records; they are on disk when this returns.
    ///
    /// # Errors
    /// They can't be written.
    pub fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record)?;
            text.push(b'\n');
        }
        self.file.write_all(&text)?;
        self.file.sync_data()
    }
}
