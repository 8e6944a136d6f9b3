//! Makes text of users safe for a terminal: characters that would move the cursor, change colors or
//! reorder letters become visible escapes. Every name, note, path, command and message from outside
//! passes here before it is printed.

use std::io::Write as _;

use gpool_cli::render::safe::{Plain, TerminalOutput, safe, safe_json};
use gpool_model::escape::is_unprintable;

#[test]
fn what_a_terminal_obeys_is_written_out() {
    assert_eq!(safe("train"), "train");
    assert_eq!(safe("naïve 训练 🚀"), "naïve 训练 🚀");
    assert_eq!(safe("a\nb\tc\r"), "a\\nb\\tc\\r");
    assert_eq!(safe("\u{1b}[31mred\u{7}"), "\\x1b[31mred\\x07");
    assert_eq!(safe("\u{9b}2J\u{7f}"), "\\x9b2J\\x7f");
    assert_eq!(safe("gpj.\u{202e}exe"), "gpj.\\u{202e}exe");
    assert_eq!(safe("a\u{200b}b\u{feff}"), "a\\u{200b}b\\u{feff}");
}

#[test]
fn output_of_others_moves_no_cursor_however_it_is_cut() {
    let bytes = "one\ttwo\n\x1b[2J\u{9b}3m\r\x07naïve £ 训练\x7f".as_bytes();
    let expected = "one\ttwo\n\\x1b[2J\\x9b3m\\x0d\\x07naïve £ 训练\\x7f";
    for cut in 0..bytes.len() {
        let mut plain = Plain::new(Vec::new());
        plain.write_all(&bytes[..cut]).expect("memory takes all");
        plain.write_all(&bytes[cut..]).expect("memory takes all");
        assert_eq!(String::from_utf8_lossy(&plain.to), expected, "{cut}");
    }
}

#[test]
fn an_interactive_program_of_others_moves_within_its_line_alone() {
    let bytes = b"50%\r100%\x08!\x1b[31mred\x1b]0;title\x07\x9b2J\n";
    let mut shown = Vec::new();
    TerminalOutput::new(&mut shown, true).write_all(bytes).expect("memory takes all");
    let expected = b"50%\r100%\x08!\\x1b[31mred\\x1b]0;title\\x07\\x9b2J\n";
    assert_eq!(shown, expected);
    let mut shown = Vec::new();
    TerminalOutput::new(&mut shown, false).write_all(bytes).expect("memory takes all");
    assert_eq!(shown, bytes);
}

#[test]
fn json_stays_json_and_means_the_same() {
    let value = serde_json::json!({"name": "x\u{9b}\u{202e}\u{1b}\u{e0041}"});
    let written = serde_json::to_string_pretty(&value).expect("plain data");
    let escaped = safe_json(&written);
    assert!(!escaped.chars().any(|c| c != '\n' && is_unprintable(c)), "{escaped}");
    let back: serde_json::Value = serde_json::from_str(&escaped).expect("still JSON");
    assert_eq!(back, value);
}
