//! Why a sweep can't run.

/// Why a sweep can't run, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub advice: String,
}

impl Fault {
    pub(crate) fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into() }
    }
}
