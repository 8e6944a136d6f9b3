//! `--watch` on a terminal: the list fills it, below a line with the time, until the user leaves
//! with `q` or Ctrl-C.

use gpool_cli::watch::redrawn;

#[test]
fn a_screen_is_redrawn_without_scrolling() {
    assert_eq!(redrawn("a\nb\nc\n", Some(3)), "\u{1b}[Ha\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
    assert_eq!(redrawn("a\n", None), "\u{1b}[Ha\u{1b}[K\n\u{1b}[J");
}
