//! What a request that failed is answered: RFC 9457, with a stable code, why, and what to try.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::catalogue::{self, Entry};
use gpool_model::Code;

/// What went wrong, why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of problem: `urn:gpool:problem:GP0412`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The kind of problem in words.
    #[serde(default)]
    pub title: String,
    /// The HTTP status.
    #[serde(default)]
    pub status: u16,
    /// What went wrong this time: one line.
    #[serde(default)]
    pub detail: String,
    /// A stable code; `gpool help CODE` explains it.
    pub code: String,
    /// Facts with numbers, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// Commands or changes that would help, a line each.
    #[serde(default, rename = "try", skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<String>,
    /// The line of a bulk submission that is wrong, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

impl Problem {
    /// A problem of a kind that the catalogue knows.
    ///
    /// # Panics
    /// If the catalogue has no such code.
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

    /// With a fact.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// With something to try.
    #[must_use]
    pub fn try_this(mut self, way: impl Into<String>) -> Self {
        self.tries.push(way.into());
        self
    }

    /// With the line of a bulk submission.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        // A line by itself is read as a document of one line; two numbers of lines would confuse.
        if let Some((what, column)) = self.detail.rsplit_once(" at line 1 column ")
            && column.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.detail = format!("{what} at column {column}");
        }
        self.detail = format!("line {line}: {}", self.detail);
        self.line = Some(line);
        self
    }

    /// What the catalogue says of it; `None` for a code of a newer server.
    #[must_use]
    pub fn entry(&self) -> Option<&'static Entry> {
        catalogue::find(&self.code)
    }

    /// The exit code of a command that meets it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        // A code of a newer server is placed by its HTTP status.
        self.entry().map_or_else(|| catalogue::exit_of_status(self.status), |entry| entry.exit)
    }
}
