//! The keys of a full-screen list. Pure.

use gpool_cli::terminal::keys::asks_to_end;

#[test]
fn q_and_ctrl_c_end_the_view_and_other_keys_do_not() {
    for typed in [&b"q"[..], b"Q", b"\x03", b"xq", b"\x1b[Aq", b"\x1b[3;5~q", b"\x1bOPq"] {
        assert!(asks_to_end(typed), "{typed:?}");
    }
    // A space, a single escape, an arrow, and pasted text.
    assert!(!asks_to_end("  \u{1b}é\r\n训\u{1b}[Q".as_bytes()));
}
