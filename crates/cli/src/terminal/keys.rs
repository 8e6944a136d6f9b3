//! The keys of a simulation view. Pure.

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// End the simulation.
    End,
    /// Pause or continue.
    Pause,
    /// Run faster.
    Faster,
    /// Run slower.
    Slower,
}

/// The byte of Ctrl-C on a raw terminal.
const CTRL_C: u8 = 3;
const ESCAPE: u8 = 0x1b;

/// The actions in typed bytes. It skips other keys, also those of several bytes such as arrows.
#[must_use]
pub fn keys(typed: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut bytes = typed.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'q' | b'Q' | CTRL_C => keys.push(Key::End),
            b' ' => keys.push(Key::Pause),
            // = is the key of + without shift.
            b'+' | b'=' => keys.push(Key::Faster),
            b'-' | b'_' => keys.push(Key::Slower),
            ESCAPE if bytes.next_if(|it| matches!(it, b'[' | b'O')).is_some() => {
                // A sequence ends with a letter or ~.
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
        // A single escape, and pasted text.
        assert_eq!(keys("\u{1b}é\r\n训".as_bytes()), []);
    }
}
