//! The keys of a full-screen list. Pure.

/// The byte of Ctrl-C on a raw terminal.
const CTRL_C: u8 = 3;
const ESCAPE: u8 = 0x1b;

/// Whether the typed bytes contain a key that ends the view. It skips other keys, also those of
/// several bytes such as arrows.
#[must_use]
pub fn asks_to_end(typed: &[u8]) -> bool {
    let mut bytes = typed.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'q' | b'Q' | CTRL_C => return true,
            ESCAPE if bytes.next_if(|it| matches!(it, b'[' | b'O')).is_some() => {
                // A sequence ends with a letter or ~.
                for _ in bytes.by_ref().take_while(|it| !matches!(it, 0x40..=0x7e)) {}
            }
            _ => {}
        }
    }
    false
}
