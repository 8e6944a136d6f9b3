//! `gpool simulate packing`: the utilization of a cluster under several policies.

use gpool_lab::simulate::packing::Seeds;

#[test]
fn seeds_are_read_with_both_ends() {
    assert_eq!("1..3,7".parse(), Ok(Seeds(vec![1, 2, 3, 7])));
    for text in ["", "x", "3..1", "1..", "0..1000"] {
        assert!(text.parse::<Seeds>().is_err(), "{text}");
    }
}
