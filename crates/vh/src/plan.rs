//! What an execution runs, as a file in its folder: the runner on the node reads it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of the file.
pub const FILE: &str = "plan.json";

/// An execution of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub step: String,
    pub title: String,
    pub commit: String,
    /// The script of the step's commands.
    pub script: String,
    pub parameters: Map<String, Value>,
    pub inputs: Vec<PlannedInput>,
    pub mounts: Vec<PlannedMount>,
    /// The folder with the cached virtual environment of the project.
    pub venv: String,
    /// Values of parameters that are known when the job starts.
    #[serde(default)]
    pub late: Vec<LateValue>,
    /// The executions that share this plan; each has a folder of its own.
    #[serde(default)]
    pub members: Members,
}

/// The executions of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Members {
    /// One.
    #[default]
    One,
    /// Each task of the job.
    Tasks,
    /// Each job with this folder.
    Jobs,
}

/// A value of a parameter that is known when the job starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LateValue {
    pub parameter: String,
    pub source: LateSource,
    /// The text in the script that the value replaces.
    pub mark: String,
}

/// Where a late value comes from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum LateSource {
    /// The last value of a metric of another job, by its ID.
    Metric { job: String, key: String },
    /// The command line of the runner.
    CommandLine { is_text: bool },
}

/// An input with the places of its files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedInput {
    pub name: String,
    pub filename: Option<String>,
    pub folders: Folders,
    pub sources: Vec<PlannedSource>,
}

/// The folders of the source that files keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Folders {
    None,
    Full,
    Suffix,
}

/// An address and where its files are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedSource {
    /// As the user wrote it.
    pub address: String,
    /// The path on the node; without one, the address is downloaded.
    pub path: Option<String>,
}

/// A path of the node that the step sees.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedMount {
    pub source: String,
    pub target: String,
    pub is_readonly: bool,
}

impl Plan {
    /// Reads the plan of an execution.
    ///
    /// # Errors
    /// It can't be read; the text says why.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(FILE);
        let wrong = |why: String| format!("can't read {}: {why}", path.display());
        let text = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))
    }
}
