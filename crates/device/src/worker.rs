//! A thread that makes calls which may never return. A hung thread gets no new call until it has
//! answered, so there are never more threads than devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use crate::source::SourceError;

type Call = Box<dyn FnOnce() + Send>;

/// A thread that makes one call at a time.
pub struct Worker {
    name: String,
    calls: Option<Sender<Call>>,
    /// True while a call is under way, whether or not its result is still awaited.
    busy: Arc<AtomicBool>,
    /// The subject of the last call.
    question: &'static str,
}

pub struct PendingAnswer<T> {
    question: &'static str,
    outcome: Result<Receiver<T>, SourceError>,
}

/// Marks the worker idle when a call ends, even by a panic.
struct Idle(Arc<AtomicBool>);

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Worker {
    /// A worker; its thread starts with the first call.
    pub fn new(name: String) -> Self {
        Self { name, calls: None, busy: Arc::default(), question: "" }
    }

    /// Starts a call. If the last one still hangs, the answer says so at once.
    pub fn ask<T: Send + 'static>(
        &mut self,
        question: &'static str,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> PendingAnswer<T> {
        if self.busy.swap(true, Ordering::Acquire) {
            return PendingAnswer {
                question,
                outcome: Err(SourceError::Hung { question: self.question }),
            };
        }
        self.question = question;
        let idle = Idle(Arc::clone(&self.busy));
        let (answer, outcome) = channel();
        let call = Box::new(move || {
            let result = call();
            // Idle before the answer is sent, so that its receiver can make the next call.
            drop(idle);
            // A late answer has no receiver.
            let _ = answer.send(result);
        });
        PendingAnswer { question, outcome: self.send(call).map(|()| outcome) }
    }

    fn send(&mut self, call: Call) -> Result<(), SourceError> {
        let call = match &self.calls {
            Some(calls) => match calls.send(call) {
                Ok(()) => return Ok(()),
                // The thread ended by a panic of an earlier call; start a new one.
                Err(unsent) => unsent.0,
            },
            None => call,
        };
        let (calls, todo) = channel::<Call>();
        std::thread::Builder::new()
            .name(self.name.clone())
            .spawn(move || todo.into_iter().for_each(|call| call()))
            .map_err(|error| SourceError::Thread(error.to_string()))?;
        // The new thread waits for its first call.
        let _ = calls.send(call);
        self.calls = Some(calls);
        Ok(())
    }
}

impl<T> PendingAnswer<T> {
    /// The answer, if it comes before the deadline.
    pub fn wait(self, deadline: Instant) -> Result<T, SourceError> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.outcome?.recv_timeout(left).map_err(|_| SourceError::Hung { question: self.question })
    }
}
