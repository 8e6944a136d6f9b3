//! The inputs of an agent: claims, which a job can modify if agent and job have the same user, and
//! the messages between shepherds and agents.

use gpool_shepherd::fuzzing::{self, MessageKind};

use crate::input::{choose, cut, text};

/// Runs the checks.
pub fn check(input: &[u8]) {
    let Some((parser, rest)) = choose(input, 5) else { return };
    match parser {
        0 => claim(rest),
        1 => {
            // With valid checksums, which a fuzzer does not guess.
            let Some(text) = text(rest) else { return };
            claim(text.lines().map(fuzzing::claim_line).collect::<String>().as_bytes());
        }
        2 => messages(MessageKind::Agent, rest),
        3 => messages(MessageKind::Shepherd, rest),
        _ => messages(MessageKind::Launch, rest),
    }
}

/// A claim means the same after it was written again, and lines that another process appends don't
/// change its contents.
fn claim(bytes: &[u8]) {
    let Some(written) = fuzzing::claim(bytes) else { return };
    assert_eq!(fuzzing::claim(&written).as_ref(), Some(&written));
    let mut appended = written.clone();
    appended.extend_from_slice(b"garbage\n");
    appended.extend_from_slice(bytes);
    assert_eq!(fuzzing::claim(&appended), Some(written));
}

/// Messages are the same in any split of the stream, and after they were written again.
fn messages(of: MessageKind, input: &[u8]) {
    let Some((one, other)) = cut(input) else { return };
    let whole = [one, other].concat();
    let messages = fuzzing::messages(of, &[&whole]);
    assert_eq!(fuzzing::messages(of, &[one, other]), messages);
    let written = messages.concat();
    assert_eq!(fuzzing::messages(of, &[&written]), messages);
}
