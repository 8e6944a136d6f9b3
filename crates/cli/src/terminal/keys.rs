//! The keys of whoever watches a simulation. Pure.

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// To end it.
    End,
    /// To stand still, or go on.
    Pause,
    /// To go faster.
    Faster,
    /// To go slower.
    Slower,
}

/// What Ctrl-C is where the terminal makes no signal of it.
const CTRL_C: u8 = 3;
const ESCAPE: u8 = 0x1b;

/// What was typed; keys that are for nothing are passed over, also those that are several bytes, as
/// arrows are.
#[must_use]
pub fn keys(typed: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut bytes = typed.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'q' | b'Q' | CTRL_C => keys.push(Key::End),
            b' ' => keys.push(Key::Pause),
            // The latter is where + is, without shift.
            b'+' | b'=' => keys.push(Key::Faster),
            b'-' | b'_' => keys.push(Key::Slower),
            ESCAPE if bytes.next_if(|it| matches!(it, b'[' | b'O')).is_some() => {
                // The last byte is a letter or ~.
                for _ in bytes.by_ref().take_while(|it| !matches!(it, 0x40..=0x7e)) {}
            }
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_for_something_or_passed_over() {
        assert_eq!(
            keys(b" +=-_"),
            [Key::Pause, Key::Faster, Key::Faster, Key::Slower, Key::Slower]
        );
        for typed in [&b"q"[..], b"Q", b"\x03", b"xq", b"\x1b[Aq", b"\x1b[3;5~q", b"\x1bOPq"] {
            assert_eq!(keys(typed), [Key::End], "{typed:?}");
        }
        // An escape alone, and what is pasted.
        assert_eq!(keys("\u{1b}é\r\n训".as_bytes()), []);
    }
}
