//! How a job's program starts besides its command: on a terminal, with activated software, after a
//! setup job.

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
    /// The usual size, for terminals that report none.
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// How an output file is opened that exists already. Without a choice the first attempt of a job
/// truncates it, and later attempts append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenMode {
    /// Each attempt appends.
    Append,
    /// Each attempt truncates.
    Truncate,
}

impl OpenMode {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Truncate => "truncate",
        }
    }

    /// The mode with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Append, Self::Truncate].into_iter().find(|mode| mode.as_str() == name)
    }
}

/// Software that is activated for a job before its program starts. Paths are absolute, as resolved
/// at submission.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// A conda environment's folder.
    Conda(String),
    /// A Python virtual environment's folder.
    Venv(String),
    /// Environment modules, in loading order.
    Modules {
        /// The script that defines `module` in a shell.
        init: String,
        /// The modules.
        names: Vec<String>,
    },
}

impl Activation {
    /// The path that must exist on the node.
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

/// A need of a job that a node does not meet; found by its agent before the program starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// This path does not exist there.
    Path(String),
    /// This file of the server does not exist, so no node can have it.
    Stored(String),
    /// The server has no value of a secret for it, so no node can have it; the sentence says why.
    Secret(String),
    /// There is no account for the job's user; the sentence is for people, with the way out.
    Account(String),
    /// There is no engine that could run the job's container; the sentence says why.
    Engine(String),
    /// It can't get the image of the job's container; the sentence says why.
    Image(String),
    /// Its disk has no space for the files of the job; the sentence says how much is missing.
    Space(String),
    /// It does not have this image yet, and pulls it.
    Pull(String),
}

/// A need of a job, and the node that does not meet it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "StoredLack")]
pub struct NodeLack {
    /// The node.
    pub node: NodeName,
    /// The need.
    pub lack: Lack,
}

/// The same as stored: before there were other lacks, with a path.
#[derive(Deserialize)]
struct StoredLack {
    node: NodeName,
    #[serde(default)]
    lack: Option<Lack>,
    #[serde(default)]
    path: String,
}

impl From<StoredLack> for NodeLack {
    fn from(StoredLack { node, lack, path }: StoredLack) -> Self {
        Self { node, lack: lack.unwrap_or(Lack::Path(path)) }
    }
}
