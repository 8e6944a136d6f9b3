//! A server from start to end: opens the store, begins a term, starts its agents, listens, and
//! stops without ending running jobs.

use std::sync::mpsc;
use std::time::Duration;

use gpool_listen::testing::{STOP_PATIENCE, within};

#[test]
fn what_is_stuck_is_not_waited_for() {
    let (_never, waits) = mpsc::channel::<()>();
    assert_eq!(within(Duration::ZERO, "it", move || waits.recv().is_ok()), None);
    assert_eq!(within(STOP_PATIENCE, "it", || 7), Some(7));
}
