//! The answer to a failed request: RFC 9457, with a stable code, facts, and suggestions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::catalogue::{self, Entry};
use gpool_model::Code;

/// An error: what failed, why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Type of the error: `urn:gpool:problem:GP0412`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Title of the error type.
    #[serde(default)]
    pub title: String,
    /// HTTP status.
    #[serde(default)]
    pub status: u16,
    /// What failed, in one line.
    #[serde(default)]
    pub detail: String,
    /// Stable code; `gpool help CODE` explains it.
    pub code: String,
    /// Facts with numbers, one per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// Commands or changes that would help, one per line.
    #[serde(default, rename = "try", skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<String>,
    /// Number of the invalid line of a bulk submission, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

impl Problem {
    /// Returns a problem of a kind in the catalogue.
    ///
    /// # Panics
    /// If the catalogue does not contain the code.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let entry = catalogue::entry(code).expect("every code in use is in the catalogue");
        Self {
            kind: format!("urn:gpool:problem:{code}"),
            title: entry.title.to_owned(),
            status: entry.status,
            detail: detail.into(),
            code: code.to_string(),
            why: Vec::new(),
            tries: Vec::new(),
            line: None,
        }
    }

    /// Adds a fact.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// Adds a suggestion.
    #[must_use]
    pub fn try_this(mut self, way: impl Into<String>) -> Self {
        self.tries.push(way.into());
        self
    }

    /// Sets the line of a bulk submission.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        // Each line is parsed as its own document, so its "line 1" would contradict the line
        // number.
        if let Some((what, column)) = self.detail.rsplit_once(" at line 1 column ")
            && column.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.detail = format!("{what} at column {column}");
        }
        self.detail = format!("line {line}: {}", self.detail);
        self.line = Some(line);
        self
    }

    /// Returns the catalogue's entry; `None` for a code of a newer server.
    #[must_use]
    pub fn entry(&self) -> Option<&'static Entry> {
        catalogue::find(&self.code)
    }

    /// Returns the exit code of a command that fails with this problem.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        // The HTTP status decides for codes of a newer server.
        self.entry().map_or_else(|| catalogue::exit_of_status(self.status), |entry| entry.exit)
    }
}
