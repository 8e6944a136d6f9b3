//! A thread that makes calls which may never return. A hung thread gets no new call until it has
//! answered, so there are never more threads than devices.

use std::time::Duration;

use std::sync::mpsc::channel;
use std::time::Instant;

use gpool_device::SourceError;
use gpool_device::testing::Worker;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[test]
fn a_hung_call_is_awaited_only_once_and_recovers() {
    let mut worker = Worker::new("test".into());
    let (release, gate) = channel::<()>();
    let hung = worker.ask("a", move || gate.recv());
    assert_eq!(hung.wait(Instant::now()), Err(SourceError::Hung { question: "a" }));
    let refused = worker.ask("b", || 1).wait(soon());
    assert_eq!(refused, Err(SourceError::Hung { question: "a" }), "it says which one hangs");
    release.send(()).unwrap();
    let give_up = soon();
    while worker.ask("c", || 2).wait(soon()) != Ok(2) {
        assert!(Instant::now() < give_up, "the worker did not recover");
        std::thread::yield_now();
    }
}

#[test]
fn a_panic_loses_one_answer_and_not_the_worker() {
    let mut worker = Worker::new("test".into());
    let lost = worker.ask("a", || -> u32 { panic!("expected in this test") }).wait(soon());
    assert_eq!(lost, Err(SourceError::Hung { question: "a" }));
    let give_up = soon();
    while worker.ask("b", || 3).wait(soon()) != Ok(3) {
        assert!(Instant::now() < give_up, "the worker did not recover");
        std::thread::yield_now();
    }
}
