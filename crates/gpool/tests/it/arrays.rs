//! Arrays in lists and on pages: their progress and the results of their elements.

use gpool_verbs::render::arrays::{blocks, progress};
use gpool_wire::ArrayStatus;

#[test]
fn progress_says_how_far_an_array_is() {
    let counts = [("succeeded", 24), ("pending", 20), ("held", 4)];
    let n_by_state = counts.map(|(state, n)| (state.to_owned(), n)).into();
    let array = ArrayStatus { n_elements: 48, n_by_state, ..ArrayStatus::default() };
    assert_eq!(progress(&array), "▇▇▇▇▇▁▁▁▁▁ 24/48 done · 0 run · 24 wait · 0 failed");
    let n_by_state = [("lost".to_owned(), 1), ("cancelled".to_owned(), 2)].into();
    let array = ArrayStatus { n_elements: 3, n_by_state, ..ArrayStatus::default() };
    assert_eq!(progress(&array), "▁▁▁▁▁▁▁▁▁▁ 0/3 done · 0 run · 0 wait · 1 failed · 2 cancelled");
    assert_eq!(blocks(1, 1_000_000), "▇▁▁▁▁▁▁▁▁▁");
    assert_eq!(blocks(999_999, 1_000_000), "▇▇▇▇▇▇▇▇▇▁");
    assert_eq!(blocks(3, 3), "▇▇▇▇▇▇▇▇▇▇");
}
