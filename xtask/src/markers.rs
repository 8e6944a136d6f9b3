//! Marker words of hard prose, and their limit. Sentences that begin with a headless relative
//! ("what was …"), or that speak of jobs and devices as persons, are hard to read for users with
//! another first language. The words below mark nearly all of them. Comments of well-kept projects
//! (ripgrep, hyperqueue, pueue) have 3 to 6 per 1,000 lines.
//!
//! The tests of gpool include this file for help texts and messages.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

/// The most marker words per 1,000 lines. Some uses are right: users are persons.
const PER_1000_LINES_MAX: usize = 8;
/// The most marker words per 10,000 words, so that long lines hide none.
const PER_10000_WORDS_MAX: usize = 8;

static MARKER: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?xi)
        \b(who|whom|whose|whoever|nobody|somebody|anybody)\b
        | \bso\ (many|much|long|often)\b
        | \b(of|for|from|by|to|in)\ (which|whom)\b
        | \bwhat\ (is|was|are|were|has|had|can|may|they|it|he|others?)\ \b
        | \b(is|are|was|were)\ (said|told)\b";
    Regex::new(pattern).expect("the pattern is valid")
});

/// The size of a text and its marker words.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub lines: usize,
    pub words: usize,
    pub markers: usize,
}

impl Count {
    /// Adds a line of a text.
    pub fn add(&mut self, line: &str) {
        self.lines += 1;
        self.words += line.split_whitespace().count();
        self.markers += MARKER.find_iter(line).count();
    }

    /// One marker is allowed in a text of any size.
    pub fn is_plain(self) -> bool {
        let by_lines = (self.lines * PER_1000_LINES_MAX).div_ceil(1_000);
        let by_words = (self.words * PER_10000_WORDS_MAX).div_ceil(10_000);
        self.markers <= by_lines.min(by_words)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, words, markers } = self;
        write!(f, "{markers} marker words in {lines} lines, {words} words")
    }
}

/// The marker words of a line.
#[allow(dead_code, reason = "only the tests of gpool name them")]
pub fn markers(line: &str) -> Vec<&str> {
    MARKER.find_iter(line).map(|found| found.as_str()).collect()
}
