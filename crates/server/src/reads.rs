//! Runs slow reads beside the core and the HTTP threads: a few at once, users in turn, so that one
//! user's reads delay another's by one short read at most. Callers divide long reads.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One read.
pub type Work = Box<dyn FnOnce() + Send>;

/// The threads that read, and what waits for them.
pub struct Reads {
    queue: Arc<ReadQueue>,
}

struct ReadQueue {
    state: Mutex<ReadQueueState>,
    is_changed: Condvar,
    /// Threads that one user may have at once.
    most_of_one: usize,
}

#[derive(Default)]
pub struct ReadQueueState {
    /// By user, the first come first; none is empty.
    waiting: BTreeMap<u32, VecDeque<Work>>,
    /// The number of running reads of each user that has any.
    pub running: BTreeMap<u32, usize>,
    /// The user of the last read that was started.
    last: u32,
    is_over: bool,
}

impl Reads {
    /// Threads on a machine with very many cores.
    const MOST: usize = 8;
    /// How much they give way to the core and to the threads that answer.
    const NICE: i32 = 5;

    /// Starts the threads: half as many as there are cores, and two at least.
    pub fn start() -> std::io::Result<Self> {
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        let n_threads = (n_cores / 2).clamp(2, Self::MOST);
        let queue = Arc::new(ReadQueue {
            state: Mutex::default(),
            is_changed: Condvar::new(),
            most_of_one: n_threads / 2,
        });
        for _ in 0..n_threads {
            let queue = Arc::clone(&queue);
            let work = move || {
                let own = rustix::thread::gettid();
                // Where that is not allowed, they compete as equals.
                let _ = rustix::process::setpriority_process(Some(own), Self::NICE);
                while let Some((uid, work)) = queue.next() {
                    if catch_unwind(AssertUnwindSafe(work)).is_err() {
                        tracing::error!("a reader thread panicked; its request got no answer");
                    }
                    queue.done(uid);
                }
            };
            std::thread::Builder::new().name("reader".to_owned()).spawn(work)?;
        }
        Ok(Self { queue })
    }

    /// Does it when it is the user's turn.
    pub fn push(&self, uid: u32, work: Work) {
        let mut state = self.queue.state();
        if !state.is_over {
            state.waiting.entry(uid).or_default().push_back(work);
            drop(state);
            self.queue.is_changed.notify_one();
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.is_over = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        self.queue.is_changed.notify_all();
    }
}

impl ReadQueue {
    fn state(&self) -> MutexGuard<'_, ReadQueueState> {
        // Each change of it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next read and its user; `None` at shutdown.
    fn next(&self) -> Option<(u32, Work)> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(found) = state.take(self.most_of_one) {
                return Some(found);
            }
            state = self.is_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, uid: u32) {
        let mut state = self.state();
        if let Some(n) = state.running.get_mut(&uid) {
            *n -= 1;
            if *n == 0 {
                state.running.remove(&uid);
            }
        }
        drop(state);
        self.is_changed.notify_one();
    }
}

impl ReadQueueState {
    #[cfg(feature = "fuzzing")]
    #[must_use]
    pub fn with(waiting: BTreeMap<u32, VecDeque<Work>>) -> Self {
        Self { waiting, ..Self::default() }
    }

    /// Takes the first read of the next user that has fewer than `most_of_one` running.
    pub fn take(&mut self, most_of_one: usize) -> Option<(u32, Work)> {
        let may = |uid: &&u32| self.running.get(*uid).is_none_or(|n| *n < most_of_one);
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let mut users = self.waiting.range(after).chain(self.waiting.range(..=self.last));
        let uid = *users.by_ref().map(|(uid, _)| uid).find(may)?;
        let waiting = self.waiting.get_mut(&uid)?;
        let work = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&uid);
        }
        *self.running.entry(uid).or_default() += 1;
        self.last = uid;
        Some((uid, work))
    }
}
