//! A private cluster for faults: a temporary folder, a server that is started and killed at will,
//! and its jobs. Everything that was started ends with it, also when the user interrupts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use gpool_cli::exit::Exit;
use gpool_lab::bench::faults::Stop;

#[test]
fn an_interrupt_ends_a_wait() {
    let stop = Stop::default();
    assert_eq!(stop.until("a number", || Some(7)).ok(), Some(7));
    stop.0.store(true, Ordering::Relaxed);
    let failure = stop.until("nothing", || None::<()>).expect_err("it is asked");
    assert_eq!(failure.exit(), Exit::DETACHED);
    assert!(stop.pause(Duration::from_secs(100)).is_err());
}
