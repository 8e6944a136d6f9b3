//! Files that travel with a job: a working folder to its nodes, and results from them.

use serde::{Deserialize, Serialize};

use crate::rare::Usual;

/// The files that a job asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRequest {
    /// The name of the manifest of its working folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<Box<str>>,
    /// Patterns of its results, relative to the working folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub download: Vec<String>,
}

impl Usual for FileRequest {
    const USUAL: &'static Self = &Self { upload: None, download: Vec::new() };
}
