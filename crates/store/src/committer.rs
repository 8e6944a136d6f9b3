//! The one thread that writes. It takes all commits that wait, makes them durable together, and
//! tells about each, in order. After a failure everything fails until [`Committer::reset`], since
//! what comes later builds on what was lost.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use gpool_model::Revision;

use crate::error::{CommitError, LoadError};
use crate::load::Loaded;
use crate::open::Store;
use crate::row::Commit;

// Bounds how long the first of a group waits for the last.
const GROUP_MAX: usize = 1024;

/// Told once for each commit, in order, on the committer's thread; should be quick.
pub type OnDone = Box<dyn FnMut(Result<Revision, CommitError>) + Send>;

enum Message {
    Commit(Commit),
    Reset(Sender<Result<Loaded, LoadError>>),
    Close,
}

/// Owns the store while a server runs. Dropping it commits what waits and closes the store.
pub struct Committer {
    submitter: Submitter,
    thread: Option<JoinHandle<()>>,
}

/// Hands commits over; cheap to clone.
#[derive(Clone)]
pub struct Submitter {
    messages: Sender<Message>,
}

impl Committer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has no thread left.
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

    /// A handle for other threads.
    #[must_use]
    pub fn submitter(&self) -> Submitter {
        self.submitter.clone()
    }

    /// After a failure: loads what is durable and takes commits again from there. All commits
    /// handed over before have been told about when it returns.
    ///
    /// # Errors
    /// If what is stored can't be trusted; then commits go on failing.
    pub fn reset(&self) -> Result<Loaded, LoadError> {
        let (reply, answer) = mpsc::channel();
        self.submitter.messages.send(Message::Reset(reply)).map_err(|_| LoadError::Closed)?;
        answer.recv().map_err(|_| LoadError::Closed)?
    }

    /// Commits what waits, closes the store and lets go of the state folder.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // Fails only if the thread is gone already.
        let _ = self.submitter.messages.send(Message::Close);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the committer had panicked");
        }
    }
}

impl Submitter {
    /// Queues a commit. Whether it is durable is told by the callback.
    ///
    /// # Errors
    /// [`CommitError::Closed`] after the committer has gone; nothing is told then.
    pub fn submit(&self, commit: Commit) -> Result<(), CommitError> {
        self.messages.send(Message::Commit(commit)).map_err(|_| CommitError::Closed)
    }
}

struct Work {
    store: Store,
    on_done: OnDone,
    failed: Option<CommitError>,
}

impl Work {
    fn run(mut self, inbox: &Receiver<Message>) {
        let mut group = Vec::new();
        while let Ok(first) = inbox.recv() {
            let mut next = Some(first);
            while let Some(Message::Commit(commit)) = next {
                group.push(commit);
                next = if group.len() < GROUP_MAX { inbox.try_recv().ok() } else { None };
            }
            self.commit(&group);
            group.clear();
            match next {
                Some(Message::Reset(reply)) => {
                    // Who asked may have given up.
                    let _ = reply.send(self.reset());
                }
                Some(Message::Close) => return,
                Some(Message::Commit(_)) | None => {}
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
