//! Output of jobs as lines.

use gpool_top::testing::{lines, wrapped};

#[test]
fn sequences_are_removed_and_a_progress_bar_is_its_last_text() {
    assert_eq!(lines("\x1b[1;31mred\x1b[0m\n"), ["red"]);
    assert_eq!(lines("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\n"), ["ab"]);
    assert_eq!(lines("1%\r50%\r100%\nnext\r\n"), ["100%", "next"]);
    assert_eq!(lines("cut \x1b[3"), ["cut "]);
    assert_eq!(lines("bell\x07 \x08"), ["bell\\x07 \\x08"]);
    assert_eq!(lines("a\tb"), ["a    b"]);
}

#[test]
fn long_lines_are_wrapped_at_blanks() {
    assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
    assert_eq!(wrapped("  one two three", 8), ["  one", "  two", "  three"]);
    assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    assert_eq!(wrapped("日本語日本語", 5), ["日本", "語日", "本語"]);
    assert_eq!(wrapped("a\n\nb", 5), ["a", "", "b"]);
    assert_eq!(wrapped("abc", 0), ["a", "b", "c"]);
}
