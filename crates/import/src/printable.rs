//! Texts that a terminal can show.

use gpool_yaml::YamlError;

/// The longest part of a message, in characters.
pub(crate) const MESSAGE_MAX: usize = 400;

/// Whether a terminal acts on a character, other than a new line or a tabulator.
pub(crate) fn is_obeyed(char: char) -> bool {
    (char.is_control() && !matches!(char, '\n' | '\t'))
        || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An error with short texts of one line, which a terminal can show.
pub(crate) fn printable(error: &YamlError) -> YamlError {
    let line = |text: &str| {
        let char = |char: char| if char.is_control() || is_obeyed(char) { '?' } else { char };
        text.chars().take(MESSAGE_MAX).map(char).collect::<String>()
    };
    YamlError {
        line: error.line,
        what: line(&error.what),
        advice: error.advice.as_deref().map(line),
    }
}
