//! Containers of jobs: the request of a user, and the engine of a node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The container that the program of a job runs in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContainerRequest {
    /// The image, as the node's engine names it.
    pub image: String,
    /// Files and folders of the node that the container sees, besides the working directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// The working directory in the container; `None` is that of the job, which is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The user in the container, `USER[:GROUP]`; `None` is the job's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When the image is pulled.
    #[serde(default)]
    pub pull: PullPolicy,
    /// The secret with which a node signs in to the registry of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
}

/// When a node pulls an image from its registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullPolicy {
    /// If the node does not have it.
    #[default]
    Missing,
    /// Before each run.
    Always,
    /// Never: a node without the image can't run the job.
    Never,
}

impl PullPolicy {
    /// All policies by name.
    pub const NAMES: &'static [&'static str] = &["missing", "always", "never"];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Always => "always",
            Self::Never => "never",
        }
    }

    /// The policy with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Missing, Self::Always, Self::Never].into_iter().find(|it| it.as_str() == name)
    }
}

/// A file or folder of the node that a container sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mount {
    /// Its path on the node; relative to the working directory of the job.
    pub source: String,
    /// Its path in the container; absolute.
    pub target: String,
    /// Whether the container can't change it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl FromStr for Mount {
    type Err = String;

    /// Reads `SOURCE[:TARGET][:ro|:rw]`. Without a target, the container has it at the same path.
    fn from_str(text: &str) -> Result<Self, String> {
        let (paths, read_only) = match text.rsplit_once(':') {
            Some((paths, "ro")) => (paths, true),
            Some((paths, "rw")) => (paths, false),
            _ => (text, false),
        };
        let (source, target) = paths.split_once(':').unwrap_or((paths, paths));
        if source.is_empty() || !target.starts_with('/') || target.contains(':') {
            return Err(format!(
                "{text:?} is no mount; write SOURCE:TARGET or SOURCE:TARGET:ro, with an absolute \
                 TARGET"
            ));
        }
        Ok(Self { source: source.to_owned(), target: target.to_owned(), read_only })
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.read_only { ":ro" } else { "" };
        write!(f, "{}:{}{suffix}", self.source, self.target)
    }
}

/// A program that runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Podman: the processes of a container are those of the job.
    Podman,
    /// Docker: a daemon runs the processes of a container.
    Docker,
    /// Apptainer, or Singularity: a container is a process of the job.
    Apptainer,
    /// Enroot: a container is a process of the job.
    Enroot,
}

impl EngineKind {
    /// All engines, in the order of the search.
    pub const ALL: [Self; 4] = [Self::Podman, Self::Docker, Self::Apptainer, Self::Enroot];

    /// The name of its program.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Apptainer => "apptainer",
            Self::Enroot => "enroot",
        }
    }
}

/// The engine of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Engine {
    /// The program.
    pub kind: EngineKind,
    /// Its version, for people.
    pub version: String,
    /// Missing parts, for people, with the remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.version)
    }
}
