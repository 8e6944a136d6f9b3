//! Notes about keys that are not taken as they are.

use std::fmt;

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It has an effect that is close to the meaning.
    Approximated,
    /// It has no effect.
    NotTaken,
}

impl Fate {
    /// The word in messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Approximated => "approximated",
            Self::NotTaken => "not taken",
        }
    }
}

/// A note about one key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    pub line: usize,
    /// The path to it: `resources.disk`.
    pub key: String,
    pub fate: Fate,
    /// The reason, or the effect that it has.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} {}: {}", self.line, self.key, self.fate.word(), self.text)
    }
}

/// The notes of a file.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    notes: Vec<Note>,
}

impl Notes {
    /// Notes that a key has a close effect.
    pub fn approximated(&mut self, line: usize, key: &str, text: impl Into<String>) {
        self.push(line, key, Fate::Approximated, text.into());
    }

    /// Notes that a key has no effect.
    pub fn not_taken(&mut self, line: usize, key: &str, text: impl Into<String>) {
        self.push(line, key, Fate::NotTaken, text.into());
    }

    fn push(&mut self, line: usize, key: &str, fate: Fate, text: String) {
        self.notes.push(Note { line, key: key.to_owned(), fate, text });
    }

    /// All notes, the first line first.
    pub fn by_line(mut self) -> Vec<Note> {
        self.notes.sort();
        self.notes.dedup();
        self.notes
    }
}
