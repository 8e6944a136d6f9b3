//! Converts values to positions along an axis, and chooses ticks.

use gpool_lab::render::plot::{Axis, DAY, Scale, plain};

fn texts(axis: &Axis) -> Vec<&str> {
    axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn round_numbers_are_written_along_an_axis() {
    let axis = Axis::linear("", (0.0, 0.83), 4, plain);
    assert_eq!(texts(&axis), ["0", "0.5"]);
    let axis = Axis::linear("", (0.0, 640.0), 5, plain);
    assert_eq!(texts(&axis), ["0", "200", "400", "600"]);
    let axis = Axis::percent("", (0.8, 1.0), 4);
    assert_eq!(texts(&axis), ["80 %", "85 %", "90 %", "95 %", "100 %"]);
    let month = Axis::time("then", (0.0, 31.0 * DAY));
    assert_eq!((texts(&month)[1], month.label.as_str()), ("5", "days since then"));
    let waits = Axis::spans("", 5.0 * DAY);
    assert_eq!(texts(&waits).last(), Some(&"1 d"));
    // Equal values still get an axis.
    assert_eq!(texts(&Axis::linear("", (3.0, 3.0), 2, plain)), ["3", "3.5", "4"]);
}

#[test]
fn values_outside_lie_at_the_end_and_no_number_is_none() {
    assert_eq!(Scale::Log(1.0, 100.0).part(10.0), 0.5);
    assert_eq!(Scale::Log(1.0, 100.0).part(0.0), 0.0);
    assert_eq!(Scale::Linear(4.0, 0.0).part(1.0), 0.75);
    assert_eq!(Scale::Linear(0.0, 4.0).part(9.0), 1.0);
    assert_eq!(Scale::Linear(2.0, 2.0).part(2.0), 0.0);
}
