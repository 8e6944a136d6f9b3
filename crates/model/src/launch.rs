//! How a job's program is started beside its command: on a terminal of its own, with software
//! made active, after a job that prepares it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::NodeName;

/// The size of a terminal's window, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Default for WindowSize {
    /// That of terminals that say nothing.
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// Software that is made active for a job before its program starts. Paths are absolute, as they
/// were found when the job was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// A conda environment's folder.
    Conda(String),
    /// A Python virtual environment's folder.
    Venv(String),
    /// Environment modules, in the order in which they are loaded.
    Modules {
        /// The script that makes `module` known to a shell.
        init: String,
        /// What is loaded.
        names: Vec<String>,
    },
}

impl Activation {
    /// The path that must be there where the job starts.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Conda(path) | Self::Venv(path) => path,
            Self::Modules { init, .. } => init,
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conda(path) => write!(f, "conda {path}"),
            Self::Venv(path) => write!(f, "venv {path}"),
            Self::Modules { names, .. } => write!(f, "modules {}", names.join(" ")),
        }
    }
}

/// A path that a job needs and that was not there when it should have started.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Missing {
    /// Where it was looked for.
    pub node: NodeName,
    /// What.
    pub path: String,
}
