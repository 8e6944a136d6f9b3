//! The words of one line of a scenario, and the errors about them.

use gpool_scenario::testing::Words;

#[test]
fn errors_point_at_the_word() {
    let mut words = Words::new(3, "job  b  b 2");
    words.next();
    words.next();
    words.next();
    let shown = words.unknown("b", "a number").to_string();
    assert_eq!(
        shown,
        "line 3, column 9: unknown word \"b\", expected a number\n  job  b  b 2\n          ^"
    );
}
