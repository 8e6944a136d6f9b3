//! How evenly the requests of owners are satisfied, over time.
//!
//! Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for
//! Resource Allocation in Shared Computer Systems", DEC Research Report TR-301, 1984.

use gpool_lab::simulate::figures::fairness::{Share, index};

#[test]
fn the_index_is_that_of_its_source() {
    let of = |shares: &[(f64, f64)]| {
        index(shares.iter().map(|(got, requested)| Share { received: *got, requested: *requested }))
    };
    assert_eq!(of(&[(1.0, 2.0), (5.0, 10.0)]), Some(1.0));
    assert_eq!(of(&[(1.0, 1.0), (0.0, 1.0), (0.0, 9.0), (0.0, 1.0)]), Some(0.25));
    // Owners without requests do not count; a single owner has no index.
    assert_eq!(of(&[(1.0, 2.0), (5.0, 10.0), (0.0, 0.0)]), Some(1.0));
    assert_eq!(of(&[(1.0, 2.0)]), None);
    assert_eq!(of(&[(0.0, 2.0), (0.0, 1.0)]), None);
}
