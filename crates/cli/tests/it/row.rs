//! A line of a full-screen picture: pieces of text, each with its own color, cut to the width of
//! the screen.

use gpool_cli::render::row::{Ink, StyledLine};

#[test]
fn a_line_is_cut_by_columns_and_painted_piece_by_piece() {
    let mut row = StyledLine::default();
    row.push(Ink::On(0), "a");
    row.push(Ink::On(0), "a");
    row.plain(" 训练");
    assert_eq!(row.width(), 7);
    assert_eq!(row.text(80, false), "aa 训练");
    // Half of a wide character can't be shown.
    assert_eq!(row.text(6, false), "aa 训");
    assert_eq!(row.text(80, true), "\x1b[7;32maa\x1b[0m 训练");
    assert_eq!(row.text(0, false), "");
}
