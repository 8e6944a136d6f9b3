//! What the driver of a map reads: the options of the map, and the request of its workers.

use std::fs;
use std::path::{Path, PathBuf};

use gpool_wire::JobCreate;
use serde::{Deserialize, Serialize};

/// The role of the workers in the group of a map.
pub const WORKER: &str = "worker";
/// The role of the job that leases the items.
pub const DRIVER: &str = "driver";

/// The file of the plan in the folder of a map.
const FILE: &str = "plan.json";

/// A map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name, which is the group of its jobs.
    pub name: String,
    /// A text that no other map has, for the idempotency key of its workers.
    pub id: String,
    /// The number of items.
    pub n_items: u64,
    /// Failed tries after which an item is set aside.
    pub tries: u32,
    /// The path of gpool.
    pub program: String,
    /// The command of the user.
    pub command: Vec<String>,
    /// How workers use it.
    pub options: WorkerOptions,
    /// The request of the workers, an array, without a command.
    pub workers: JobCreate,
}

/// How a worker uses its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerOptions {
    /// Items that the program can have at once.
    pub ahead: usize,
    /// How it answers.
    pub answer: AnswerForm,
}

/// How a program says that it has handled an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// A line of JSON with the number of the item.
    Json,
    /// Any line: for the oldest of its items, with the line as result.
    Line,
}

impl AnswerForm {
    /// Returns its name in flags.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Line => "line",
        }
    }
}

impl Plan {
    /// Reads the plan of a folder.
    ///
    /// # Errors
    /// It is not there, or damaged.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(FILE);
        let text =
            fs::read(&path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes the plan into a folder.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let path = folder.join(FILE);
        let text = serde_json::to_vec(self).unwrap_or_default();
        fs::write(&path, text).map_err(|error| format!("can't write {}: {error}", path.display()))
    }
}

/// The items of a map.
#[must_use]
pub fn items(folder: &Path) -> PathBuf {
    folder.join("items.jsonl")
}

/// The records of its items.
#[must_use]
pub fn records(folder: &Path) -> PathBuf {
    folder.join("records.jsonl")
}

/// The socket of its driver.
#[must_use]
pub fn socket(folder: &Path) -> PathBuf {
    folder.join("driver.sock")
}
