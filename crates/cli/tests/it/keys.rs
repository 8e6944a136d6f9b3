//! The keys of a simulation view. Pure.

use gpool_cli::terminal::keys::{ViewKey, keys};

#[test]
fn keys_are_for_something_or_passed_over() {
    assert_eq!(
        keys(b" +=-_"),
        [ViewKey::Pause, ViewKey::Faster, ViewKey::Faster, ViewKey::Slower, ViewKey::Slower]
    );
    for typed in [&b"q"[..], b"Q", b"\x03", b"xq", b"\x1b[Aq", b"\x1b[3;5~q", b"\x1bOPq"] {
        assert_eq!(keys(typed), [ViewKey::End], "{typed:?}");
    }
    // A single escape, and pasted text.
    assert_eq!(keys("\u{1b}é\r\n训".as_bytes()), []);
}
