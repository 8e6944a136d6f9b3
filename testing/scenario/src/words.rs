//! The words of one line of a scenario, and the errors about them.

use thiserror::Error;

/// An error in a line of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {why}\n  {text}\n  {marker}", marker = marker(*.column))]
pub struct ScenarioError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The whole line.
    pub text: String,
    /// The error, with the expected words.
    pub why: String,
}

fn marker(column: usize) -> String {
    format!("{:>column$}", '^')
}

/// The unread words of one line.
#[derive(Debug)]
pub struct Words<'a> {
    line: usize,
    text: &'a str,
    /// In reverse order, so that the next one is popped: byte position and word.
    rest: Vec<(usize, &'a str)>,
    /// The position of the last read word.
    last: usize,
}

impl<'a> Words<'a> {
    /// Splits a line with this number at white space.
    pub fn new(line: usize, text: &'a str) -> Self {
        let mut rest = Vec::new();
        let mut at = 0;
        for word in text.split_whitespace() {
            // Words come in order, so the next occurrence is this one.
            at += text[at..].find(word).unwrap_or(0);
            rest.push((at, word));
            at += word.len();
        }
        rest.reverse();
        Self { line, text, rest, last: 0 }
    }

    /// Reads the next word.
    #[allow(clippy::should_implement_trait, reason = "words are taken one by one, never in a loop")]
    pub fn next(&mut self) -> Option<&'a str> {
        let (at, word) = self.rest.pop()?;
        self.last = at;
        Some(word)
    }

    /// Reads the next word, which must exist.
    pub fn need(&mut self, what: &str) -> Result<&'a str, ScenarioError> {
        let Some(word) = self.next() else {
            self.last = self.text.len();
            return Err(self.error(format!("expected {what}")));
        };
        Ok(word)
    }

    /// The next word, without reading it.
    pub fn peek(&self) -> Option<&'a str> {
        self.rest.last().map(|(_, word)| *word)
    }

    /// Reads the next word if it equals `word`.
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.next();
        }
        found
    }

    /// Reads the next word and converts it.
    pub fn parse<T, E: std::fmt::Display>(
        &mut self,
        what: &str,
        read: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Result<T, ScenarioError> {
        let word = self.need(what)?;
        read(word).map_err(|why| self.error(format!("{word:?} is not {what}: {why}")))
    }

    /// Checks that no word is left.
    pub fn end(&mut self) -> Result<(), ScenarioError> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(self.unknown(word, "the end of the line")),
        }
    }

    /// An error at the last read word.
    pub fn error(&self, why: String) -> ScenarioError {
        let column = self.text[..self.last].chars().count() + 1;
        ScenarioError { line: self.line, column, text: self.text.to_owned(), why }
    }

    /// An error for the last read word: it is none of the known ones.
    pub fn unknown(&self, word: &str, known: &str) -> ScenarioError {
        self.error(format!("unknown word {word:?}, expected {known}"))
    }
}
