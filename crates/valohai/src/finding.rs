//! Errors and warnings about a file, with their lines.

use std::fmt;

use gpool_yaml::YamlError;

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The file can't be used.
    Error,
    /// The file can be used, but not as written.
    Warning,
}

/// An error or warning about one line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub line: usize,
    pub level: Level,
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
    /// Whether the file can be run all the same.
    pub is_tolerable: bool,
}

impl Finding {
    #[must_use]
    pub fn error(line: usize, what: impl Into<String>) -> Self {
        Self { line, level: Level::Error, what: what.into(), advice: None, is_tolerable: false }
    }

    #[must_use]
    pub fn warning(line: usize, what: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(line, what) }
    }

    #[must_use]
    pub fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl From<YamlError> for Finding {
    fn from(error: YamlError) -> Self {
        Self { advice: error.advice, ..Self::error(error.line, error.what) }
    }
}
