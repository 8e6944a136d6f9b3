//! The only thread that writes. It takes all waiting commits, makes them durable together, and
//! reports each, in order. After a failure all commits fail until [`Committer::reset`], since later
//! commits depend on the lost ones.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use gpool_model::Revision;

use crate::error::{CommitError, LoadError};
use crate::load::Loaded;
use crate::open::Store;
use crate::row::Commit;

// Limits how long the first commit of a group waits for the last.
const GROUP_MAX: usize = 1024;

/// The callback for results: called once for each commit, in order, on the committer's thread;
/// should be quick.
pub type OnDone = Box<dyn FnMut(Result<Revision, CommitError>) + Send>;

enum CommitterMessage {
    Commit(Commit),
    Reset(Sender<Result<Loaded, LoadError>>),
    FillReserve,
    Close,
}

/// Owns the store while a server runs. On drop, it commits the queue and closes the store.
pub struct Committer {
    submitter: Submitter,
    thread: Option<JoinHandle<()>>,
}

/// Queues commits; cheap to clone.
#[derive(Clone)]
pub struct Submitter {
    messages: Sender<CommitterMessage>,
}

impl Committer {
    /// Starts the thread.
    pub fn spawn(store: Store, on_done: OnDone) -> std::io::Result<Self> {
        let (messages, inbox) = mpsc::channel();
        let work = move || Work { store, on_done, failed: None }.run(&inbox);
        let thread = thread::Builder::new().name("committer".to_owned()).spawn(work)?;
        Ok(Self { submitter: Submitter { messages }, thread: Some(thread) })
    }

    /// Queues a commit; see [`Submitter::submit`].
    ///
    /// # Errors
    /// Never while the committer lives.
    pub fn submit(&self, commit: Commit) -> Result<(), CommitError> {
        self.submitter.submit(commit)
    }

    /// Returns a handle for other threads.
    #[must_use]
    pub fn submitter(&self) -> Submitter {
        self.submitter.clone()
    }

    /// Recovers from a failure: loads the durable state and accepts commits again from there. All
    /// earlier commits have been reported when this returns.
    ///
    /// # Errors
    /// If the stored data can't be trusted; then commits keep failing.
    pub fn reset(&self) -> Result<Loaded, LoadError> {
        let (reply, answer) = mpsc::channel();
        self.submitter
            .messages
            .send(CommitterMessage::Reset(reply))
            .map_err(|_| LoadError::Closed)?;
        answer.recv().map_err(|_| LoadError::Closed)?
    }

    /// Has the store make its reserve of space complete again, if there is room.
    pub fn fill_reserve(&self) {
        // Fails only if the thread has ended already.
        let _ = self.submitter.messages.send(CommitterMessage::FillReserve);
    }

    /// Commits the queue, closes the store and releases the state folder.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // Fails only if the thread has ended already.
        let _ = self.submitter.messages.send(CommitterMessage::Close);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the committer thread panicked");
        }
    }
}

impl Submitter {
    /// Queues a commit. The callback reports whether it is durable.
    ///
    /// # Errors
    /// [`CommitError::Closed`] after the committer has ended; no callback follows then.
    pub fn submit(&self, commit: Commit) -> Result<(), CommitError> {
        self.messages.send(CommitterMessage::Commit(commit)).map_err(|_| CommitError::Closed)
    }
}

struct Work {
    store: Store,
    on_done: OnDone,
    failed: Option<CommitError>,
}

impl Work {
    fn run(mut self, inbox: &Receiver<CommitterMessage>) {
        let mut group = Vec::new();
        while let Ok(first) = inbox.recv() {
            let mut next = Some(first);
            while let Some(CommitterMessage::Commit(commit)) = next {
                group.push(commit);
                next = if group.len() < GROUP_MAX { inbox.try_recv().ok() } else { None };
            }
            self.commit(&group);
            group.clear();
            match next {
                Some(CommitterMessage::Reset(reply)) => {
                    // The caller may have given up.
                    let _ = reply.send(self.reset());
                }
                Some(CommitterMessage::FillReserve) => self.store.fill_reserve(),
                Some(CommitterMessage::Close) => return,
                Some(CommitterMessage::Commit(_)) | None => {}
            }
        }
    }

    fn commit(&mut self, group: &[Commit]) {
        let mut n_done = 0;
        if self.failed.is_none() {
            let (n_good, wrong) = self.store.check(group);
            let written = match n_good {
                0 => Ok(Revision(0)),
                _ => self.store.commit(&group[..n_good]),
            };
            match written {
                Ok(_) => {
                    for commit in &group[..n_good] {
                        (self.on_done)(Ok(commit.revision));
                    }
                    n_done = n_good;
                    fail::fail_point!("store-commit-told");
                    self.failed = wrong;
                }
                Err(error) => self.failed = Some(error),
            }
            if self.failed.is_none() {
                self.store.prune();
            }
        }
        if let Some(error) = &self.failed {
            for _ in &group[n_done..] {
                (self.on_done)(Err(error.clone()));
            }
        }
    }

    fn reset(&mut self) -> Result<Loaded, LoadError> {
        let loaded = self.store.reload()?;
        self.failed = None;
        Ok(loaded)
    }
}
