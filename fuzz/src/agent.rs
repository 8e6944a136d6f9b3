//! What an agent reads back: claims, which the user of a job may reach where agent and job are of
//! one user, and what shepherds and agents tell each other.

use gpool_agent::fuzzing::{self, Of};

use crate::input::{choose, cut, text};

/// Tries them.
pub fn check(input: &[u8]) {
    let Some((parser, rest)) = choose(input, 5) else { return };
    match parser {
        0 => claim(rest),
        1 => {
            // With checksums that are right, which no fuzzer guesses.
            let Some(text) = text(rest) else { return };
            claim(text.lines().map(fuzzing::claim_line).collect::<String>().as_bytes());
        }
        2 => messages(Of::Agent, rest),
        3 => messages(Of::Shepherd, rest),
        _ => messages(Of::Launch, rest),
    }
}

/// A claim means the same after it was written again, and what is appended to it by somebody who
/// is not its claimant does not undo what it says.
fn claim(bytes: &[u8]) {
    let Some(written) = fuzzing::claim(bytes) else { return };
    assert_eq!(fuzzing::claim(&written).as_ref(), Some(&written));
    let mut appended = written.clone();
    appended.extend_from_slice(b"garbage\n");
    appended.extend_from_slice(bytes);
    assert_eq!(fuzzing::claim(&appended), Some(written));
}

/// It does not matter in which parts messages come, and each is read as it is written.
fn messages(of: Of, input: &[u8]) {
    let Some((one, other)) = cut(input) else { return };
    let whole = [one, other].concat();
    let messages = fuzzing::messages(of, &[&whole]);
    assert_eq!(fuzzing::messages(of, &[one, other]), messages);
    let written = messages.concat();
    assert_eq!(fuzzing::messages(of, &[&written]), messages);
}
