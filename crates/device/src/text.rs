//! Errors in files that users write, with position and hint.

use std::path::Path;

use gpool_model::escape::{REPEATED_MAX, repeated, unknown_name};

/// `devices.toml:3:1: unknown key "modle"; did you mean "model"?`
pub(crate) fn toml_problem(file: &Path, text: &str, error: &toml::de::Error) -> String {
    let place = match error.span() {
        Some(span) => place(file, text, span.start),
        None => file.display().to_string(),
    };
    format!("{place}: {}", what(error.message()))
}

/// The position of a byte in a file: `devices.toml:3:1`.
pub(crate) fn place(file: &Path, text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{}:{line}:{column}", file.display())
}

/// Rewords the parser's message about an unknown key, with the nearest known key.
fn what(message: &str) -> String {
    match unknown_name(message) {
        Some((unknown, known)) => {
            let start: String = unknown.chars().take(REPEATED_MAX).collect();
            match nearest(&start, &known) {
                Some(near) => format!("unknown word {start:?}; did you mean {near:?}?"),
                None => format!("unknown word {start:?}; write one of {}", known.join(", ")),
            }
        }
        None => repeated(&message.lines().collect::<Vec<_>>().join(", ")),
    }
}

fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    let score = |word: &&str| strsim::jaro_winkler(unknown, word);
    let best = known.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(&best) > 0.7).then_some(best)
}
