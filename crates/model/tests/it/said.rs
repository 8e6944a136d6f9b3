//! Tests of `said`.

use gpool_model::said::{repeated, unknown_name};

#[test]
fn what_a_terminal_would_obey_is_written_out_and_the_rest_stays() {
    assert_eq!(repeated("è\u{1b}[2J\u{202e}ok"), "è\\u{1b}[2J\\u{202e}ok");
    assert_eq!(repeated(&"x".repeat(500)), format!("{}…", "x".repeat(200)));
}

#[test]
fn an_unknown_name_of_serdes_own_words_is_one_name() {
    let read = unknown_name;
    assert_eq!(read("unknown field `a`, expected `b` or `c`"), Some(("a", vec!["b", "c"])),);
    assert_eq!(
        read("unknown variant `a`, expected `\t` or `x`, expected one of `b`, `c`, `d`"),
        Some(("a`, expected `\t` or `x", vec!["b", "c", "d"])),
    );
    assert_eq!(read("unknown field `a`, there are no fields"), None);
    assert_eq!(read("missing field `a`"), None);
}
