//! Splits an input for a target, and checks refusals.

use gpool_wire::{Problem, json};

/// Most characters of one line of a refusal. A refusal that repeats its whole input would be
/// longer.
const SAID_MAX: usize = 2000;

/// The parser, chosen by the first byte, and the rest of the input.
pub fn choose(input: &[u8], n_parsers: u8) -> Option<(u8, &[u8])> {
    let (first, rest) = input.split_first()?;
    Some((first % n_parsers, rest))
}

/// The input as text; parsers of text skip other input.
pub fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// The input in two parts; the first byte chooses where it is cut.
pub fn cut(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = input.split_first()?;
    Some(rest.split_at(usize::from(*first).min(rest.len())))
}

/// Checks that a message is not empty, not too long, and printable.
pub fn is_said(text: &str) {
    assert!(!text.trim().is_empty(), "nothing is said");
    let n_chars = text.chars().count();
    assert!(n_chars <= SAID_MAX, "{n_chars} characters are said: {text:.200}…");
    is_shown(text);
}

/// Checks that a terminal displays all characters and interprets none.
pub fn is_shown(text: &str) {
    let is_obeyed = |c: &char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}');
    if let Some(c) = text.chars().find(is_obeyed) {
        panic!("{c:?} would reach a terminal: {text:?}");
    }
}

/// Checks each line of a text.
pub fn are_shown(text: &str) {
    text.split('\n').for_each(is_shown);
}

/// Checks all texts of a problem, and that it survives serialisation.
pub fn is_problem(problem: &Problem) {
    is_said(&problem.detail);
    problem.why.iter().chain(&problem.tries).for_each(|line| is_said(line));
    assert!(problem.entry().is_some(), "{} is in no catalogue", problem.code);
    let sent = serde_json::to_vec(problem).expect("problems are plain data");
    assert_eq!(json::read::<Problem>(&sent).as_ref(), Ok(problem));
}
