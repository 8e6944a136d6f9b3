//! The keys of a simulation view. Pure.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewKey {
    /// End the simulation.
    End,
    /// Pause or continue.
    Pause,
    Faster,
    Slower,
}

/// The byte of Ctrl-C on a raw terminal.
const CTRL_C: u8 = 3;
const ESCAPE: u8 = 0x1b;

/// The actions in typed bytes. It skips other keys, also those of several bytes such as arrows.
#[must_use]
pub fn keys(typed: &[u8]) -> Vec<ViewKey> {
    let mut keys = Vec::new();
    let mut bytes = typed.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'q' | b'Q' | CTRL_C => keys.push(ViewKey::End),
            b' ' => keys.push(ViewKey::Pause),
            // = is the key of + without shift.
            b'+' | b'=' => keys.push(ViewKey::Faster),
            b'-' | b'_' => keys.push(ViewKey::Slower),
            ESCAPE if bytes.next_if(|it| matches!(it, b'[' | b'O')).is_some() => {
                // A sequence ends with a letter or ~.
                for _ in bytes.by_ref().take_while(|it| !matches!(it, 0x40..=0x7e)) {}
            }
            _ => {}
        }
    }
    keys
}
