//! A thread that makes calls which may never return. One that hangs is left alone: nothing new is
//! asked of it until it has answered, so there are never more threads than devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use crate::source::SourceError;

type Call = Box<dyn FnOnce() + Send>;

/// One thread, doing one call at a time.
pub(crate) struct Worker {
    name: String,
    calls: Option<Sender<Call>>,
    /// True while a call is under way, whether anybody still waits for it or not.
    busy: Arc<AtomicBool>,
    /// What it was last asked.
    asked: &'static str,
}

/// An answer that is due.
pub(crate) struct Answer<T> {
    asked: &'static str,
    outcome: Result<Receiver<T>, SourceError>,
}

/// Ends a call's being under way, even by a panic.
struct Idle(Arc<AtomicBool>);

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Worker {
    /// A worker whose thread starts with its first call.
    pub(crate) fn new(name: String) -> Self {
        Self { name, calls: None, busy: Arc::default(), asked: "" }
    }

    /// Starts a call, unless the one before still hangs: then the answer is that, at once.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        asked: &'static str,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Answer { asked, outcome: Err(SourceError::Hung { asked: self.asked }) };
        }
        self.asked = asked;
        let idle = Idle(Arc::clone(&self.busy));
        let (answer, outcome) = channel();
        let call = Box::new(move || {
            let result = call();
            // Idle before the answer is out: whoever has it may ask again.
            drop(idle);
            // Nobody waits for an answer that comes too late.
            let _ = answer.send(result);
        });
        Answer { asked, outcome: self.send(call).map(|()| outcome) }
    }

    fn send(&mut self, call: Call) -> Result<(), SourceError> {
        let call = match &self.calls {
            Some(calls) => match calls.send(call) {
                Ok(()) => return Ok(()),
                // The thread ended by a panic of an earlier call; the next one takes its place.
                Err(unsent) => unsent.0,
            },
            None => call,
        };
        let (calls, todo) = channel::<Call>();
        std::thread::Builder::new()
            .name(self.name.clone())
            .spawn(move || todo.into_iter().for_each(|call| call()))
            .map_err(|error| SourceError::Thread(error.to_string()))?;
        // The thread has just been started and waits for its first call.
        let _ = calls.send(call);
        self.calls = Some(calls);
        Ok(())
    }
}

impl<T> Answer<T> {
    /// The answer, if it comes before the deadline.
    pub(crate) fn wait(self, deadline: Instant) -> Result<T, SourceError> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.outcome?.recv_timeout(left).map_err(|_| SourceError::Hung { asked: self.asked })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may end by a panic.
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[test]
    fn a_hung_call_is_not_waited_for_twice_and_recovers() {
        let mut worker = Worker::new("test".into());
        let (release, gate) = channel::<()>();
        let hung = worker.ask("a", move || gate.recv());
        assert_eq!(hung.wait(Instant::now()), Err(SourceError::Hung { asked: "a" }));
        let refused = worker.ask("b", || 1).wait(soon());
        assert_eq!(refused, Err(SourceError::Hung { asked: "a" }), "it says which one hangs");
        release.send(()).unwrap();
        let give_up = soon();
        while worker.ask("c", || 2).wait(soon()) != Ok(2) {
            assert!(Instant::now() < give_up, "the worker never came back");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_panic_costs_one_answer_and_not_the_worker() {
        let mut worker = Worker::new("test".into());
        let lost = worker.ask("a", || -> u32 { panic!("expected in this test") }).wait(soon());
        assert_eq!(lost, Err(SourceError::Hung { asked: "a" }));
        let give_up = soon();
        while worker.ask("b", || 3).wait(soon()) != Ok(3) {
            assert!(Instant::now() < give_up, "the worker never came back");
            std::thread::yield_now();
        }
    }
}
