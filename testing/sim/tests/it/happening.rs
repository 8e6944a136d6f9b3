//! The events of a simulated run, as data and as a line of text: a word and named numbers. A number
//! that picks one of several is taken modulo their count, and an event that cannot happen does
//! nothing. So every list of events is valid in every cluster, as shrinking needs.

use gpool_sim::{Happening, Kind};

#[test]
fn what_is_written_is_read_again() {
    for kind in Kind::ALL {
        let n = i64::try_from(kind.arguments().len()).expect("few");
        let happening = Happening::new(*kind, &(0..n).map(|n| n - 2).collect::<Vec<_>>());
        assert_eq!(happening.to_string().parse(), Ok(happening));
    }
}

#[test]
fn a_line_that_means_nothing_is_refused_with_what_would() {
    let refused = |line: &str| line.parse::<Happening>().expect_err("it means nothing");
    assert_eq!(refused("explode"), "nothing is called \"explode\"");
    assert_eq!(refused("order x 1"), "order has no number \"x\"; it has: node pick");
    assert_eq!(refused("order node"), "after \"node\" of order there must be a number");
}
