//! `gpool queue`: lists jobs.

use gpool::verbs::queue::states;

#[test]
fn states_are_read_as_people_write_them() {
    assert_eq!(states("Pending,timed-out").as_deref(), Ok("pending,timed_out"));
    assert_eq!(states("pending,all").as_deref(), Ok("all"));
    let failure = states("bogus").expect_err("no such state");
    assert_eq!(failure.exit().0, 2);
    assert!(failure.text(false).contains("held, waiting, pending"));
}
