//! The spread of tasks that may share nodes: how many units each node gets.

use gpool_sched::testing::{most_times, share_out};

#[test]
fn few_nodes_are_used_and_the_last_one_is_the_tightest() {
    let fitting = [(0, 2), (1, 4), (2, 3), (3, 4), (4, 0), (5, 2)];
    assert_eq!(share_out(1, &fitting), Some(vec![(0, 1)]));
    assert_eq!(share_out(3, &fitting), Some(vec![(2, 3)]));
    assert_eq!(share_out(4, &fitting), Some(vec![(1, 4)]));
    assert_eq!(share_out(6, &fitting), Some(vec![(1, 4), (0, 2)]));
    assert_eq!(share_out(15, &fitting).map(|given| given.len()), Some(5));
    assert_eq!(share_out(16, &fitting), None);
    assert_eq!(share_out(1, &[]), None);
    // Where each has room once it is the preferred ones.
    assert_eq!(share_out(2, &[(7, 1), (3, 1), (5, 1)]), Some(vec![(7, 1), (3, 1)]));
}

#[test]
fn the_most_times_are_found_that_fit() {
    for most in 0..20 {
        for limit in 0..25 {
            assert_eq!(most_times(most, |times| times <= limit), most.min(limit));
        }
    }
}
