//! One figure: a measured value and its target.

use gpool_lab::bench::figure::{Figure, Ranked, digits};

#[test]
fn percentiles_are_the_nearest_rank() {
    let hundred = Ranked::of((1..=100).map(f64::from).rev().collect());
    let asked = [50, 90, 99, 100].map(|percent| hundred.percentile(percent));
    assert_eq!(asked, [50.0, 90.0, 99.0, 100.0]);
    let three = Ranked::of(vec![3.0, 1.0, 2.0]);
    assert_eq!([0, 50, 99].map(|percent| three.percentile(percent)), [1.0, 2.0, 3.0]);
    assert!(Ranked::of(vec![]).percentile(50).is_nan());
}

#[test]
fn a_goal_is_reached_or_missed() {
    let figure = |value| Figure::new("x", "an x", value, "ms");
    assert_eq!(figure(4.9).below(5.0).reached, Some(true));
    assert_eq!(figure(5.0).below(5.0).reached, Some(false));
    assert_eq!(figure(5.0).above(5.0).reached, Some(false));
    assert_eq!(figure(5.1).above(5.0).reached, Some(true));
    assert_eq!(figure(5.1).reached, None);
    assert_eq!(figure(0.0).exactly(0.0).reached, Some(true));
    assert_eq!(figure(1.0).exactly(0.0).reached, Some(false));
    // A value that could not be measured reaches no target.
    assert_eq!(figure(f64::NAN).below(5.0).reached, Some(false));
}

#[test]
fn a_line_says_what_how_much_and_whether_that_will_do() {
    let figure = Figure::new("rate", "some", 51_234.56, "jobs/s").above(50_000.0);
    let words: Vec<_> = figure.line().split_whitespace().map(str::to_owned).collect();
    assert_eq!(words.join(" "), "some 51,235 jobs/s above 50,000 reached");
}

#[test]
fn numbers_have_three_digits() {
    let all = [0.0, 0.0123, 0.25, 3.5678, 42.19, 999.4, 1234.0, 1_234_567.8];
    let all = all.map(digits).join(" ");
    assert_eq!(all, "0 0.012 0.25 3.57 42.2 999 1,234 1,234,568");
}
