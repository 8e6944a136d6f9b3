//! Why a text is not read.

use std::fmt;

use thiserror::Error;

/// An error at one line of a text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct YamlError {
    pub line: usize,
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl YamlError {
    #[must_use]
    pub fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into(), advice: None }
    }

    #[must_use]
    pub fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}
