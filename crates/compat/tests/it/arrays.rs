//! Rows of array elements as in Slurm: one for each element that has started, and one for all
//! waiting elements, `12_[4-9]`.

use gpool_compat::testing::{in_row, ranges};

#[test]
fn indexes_are_written_in_ranges() {
    assert_eq!(ranges([1, 2, 3, 7, 9, 10].into_iter()), "1-3,7,9-10");
    assert_eq!(ranges([].into_iter()), "");
}

#[test]
fn an_element_is_found_in_the_row_of_those_that_wait() {
    assert_eq!(in_row("12.5", "12", "[4-9%2]"), Some(true));
    assert_eq!(in_row("12.3", "12", "[4-9]"), Some(false));
    assert_eq!(in_row("13.5", "12", "[4-9]"), Some(false));
    assert_eq!(in_row("12", "12", "[4-9]"), None);
}
