//! Ratios that are compared exactly, however large their terms. Nothing is rounded here.

use std::cmp::Ordering;

use gpool_sched::fairshare::{Ratio, by_parts};

fn ratio(over: u128, under: u128) -> Ratio {
    Ratio::new(over, under).expect("not over nothing")
}

#[test]
fn both_ways_of_comparing_agree() {
    for a in 0..12 {
        for b in 1..9 {
            for c in 0..12 {
                for d in 1..9 {
                    let (one, two) = (ratio(a, b), ratio(c, d));
                    assert_eq!(by_parts(one, two), (a * d).cmp(&(c * b)), "{a}/{b} {c}/{d}");
                    assert_eq!(one.cmp(&two), by_parts(one, two));
                }
            }
        }
    }
}

#[test]
fn ratios_of_the_largest_terms_are_told_apart() {
    let most = u128::MAX;
    let one = ratio(most - 1, most);
    let two = ratio(most - 2, most - 1);
    assert_eq!(one.cmp(&two), Ordering::Greater, "1 - 1/n grows with n");
    assert_eq!(one.cmp(&one), Ordering::Equal);
    assert!(Ratio::new(1, 0).is_none());
}
