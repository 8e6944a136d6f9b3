//! Short phrases that several pages share.

use gpool_cli::render::words::{command, count, indexes};

#[test]
fn neighbours_are_folded() {
    assert_eq!(indexes(&[]), "");
    assert_eq!(indexes(&[3]), "3");
    assert_eq!(indexes(&[0, 1]), "0,1");
    assert_eq!(indexes(&[0, 2, 3, 4, 5, 7]), "0,2–5,7");
    assert_eq!(indexes(&[u32::MAX, 0]), format!("{},0", u32::MAX));
}

#[test]
fn counts_have_their_word() {
    assert_eq!(count(1, "row"), "1 row");
    assert_eq!(count(0, "row"), "0 rows");
    assert_eq!(count(1_234_567, "job"), "1,234,567 jobs");
}

#[test]
fn commands_can_be_pasted() {
    let words = ["sh", "-c", "a | b", "it's", ""].map(str::to_owned);
    assert_eq!(command(&words), r"sh -c 'a | b' 'it'\''s' ''");
}
