//! One input as the parts that a target wants, and what must hold of each refusal.

use gpool_wire::{Problem, json};

/// Most characters of one line that says why something was refused. A refusal that repeats what it
/// refuses in full would be as long as that.
const SAID_MAX: usize = 2000;

/// The parser that an input is for, and the rest of it: its first byte chooses.
pub fn choose(input: &[u8], n_parsers: u8) -> Option<(u8, &[u8])> {
    let (first, rest) = input.split_first()?;
    Some((first % n_parsers, rest))
}

/// The input as text; what is none is of no use to parsers of text.
pub fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// The input in two parts, cut at a place that its first byte chooses.
pub fn cut(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = input.split_first()?;
    Some(rest.split_at(usize::from(*first).min(rest.len())))
}

/// What is said to a user is something, is not endless, and can be shown as it is.
pub fn is_said(text: &str) {
    assert!(!text.trim().is_empty(), "nothing is said");
    let n_chars = text.chars().count();
    assert!(n_chars <= SAID_MAX, "{n_chars} characters are said: {text:.200}…");
    is_shown(text);
}

/// A terminal shows each character and obeys none.
pub fn is_shown(text: &str) {
    let is_obeyed = |c: &char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}');
    if let Some(c) = text.chars().find(is_obeyed) {
        panic!("{c:?} would reach a terminal: {text:?}");
    }
}

/// A text of lines, each of which a terminal shows as it is.
pub fn are_shown(text: &str) {
    text.split('\n').for_each(is_shown);
}

/// A problem says what it is, in every part that has words, and survives being sent.
pub fn is_problem(problem: &Problem) {
    is_said(&problem.detail);
    problem.why.iter().chain(&problem.tries).for_each(|line| is_said(line));
    assert!(problem.entry().is_some(), "{} is in no catalogue", problem.code);
    let sent = serde_json::to_vec(problem).expect("problems are plain data");
    assert_eq!(json::read::<Problem>(&sent).as_ref(), Ok(problem));
}
