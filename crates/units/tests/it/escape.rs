//! Tests of `repeated`.

use gpool_units::escape::{repeated, unknown_name};

#[test]
fn control_characters_are_escaped() {
    assert_eq!(repeated("è\u{1b}[2J\u{202e}ok"), "è\\u{1b}[2J\\u{202e}ok");
    assert_eq!(repeated("a\u{2800}\u{3164}\u{34f}"), "a\\u{2800}\\u{3164}\\u{34f}");
    assert_eq!(repeated(&"x".repeat(500)), format!("{}…", "x".repeat(200)));
}

#[test]
fn unknown_names_may_contain_words_of_serdes_message() {
    let read = unknown_name;
    assert_eq!(read("unknown field `a`, expected `b` or `c`"), Some(("a", vec!["b", "c"])),);
    assert_eq!(
        read("unknown variant `a`, expected `\t` or `x`, expected one of `b`, `c`, `d`"),
        Some(("a`, expected `\t` or `x", vec!["b", "c", "d"])),
    );
    assert_eq!(read("unknown field `a`, there are no fields"), None);
    assert_eq!(read("missing field `a`"), None);
}
