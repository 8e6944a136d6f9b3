//! Bars of block characters.

use gpool_cli::render::bar::bar;

#[test]
fn bars_are_always_as_wide() {
    assert_eq!(bar(0, 100, 6), "      ");
    assert_eq!(bar(1, 1000, 6), "▏     ");
    assert_eq!(bar(50, 100, 6), "███   ");
    assert_eq!(bar(91, 100, 6), "█████▍");
    assert_eq!(bar(100, 100, 6), "██████");
    assert_eq!(bar(u64::MAX, 1, 6), "██████");
    assert_eq!(bar(1, 0, 6), "      ");
}
