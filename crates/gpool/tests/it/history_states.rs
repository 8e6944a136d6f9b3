//! `gpool history`: lists ended jobs and their total usage.

use gpool::verbs::history::ends;

#[test]
fn only_ends_are_history() {
    assert_eq!(ends(None).as_deref(), Ok("ended"));
    assert_eq!(ends(Some("failed,timed-out")).as_deref(), Ok("failed,timed_out"));
    let failure = ends(Some("failed,running")).expect_err("it runs");
    assert!(failure.text(false).contains("gpool queue --state running"));
}
