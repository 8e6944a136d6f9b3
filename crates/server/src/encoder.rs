//! Writes commits as rows, beside the core's thread.

use std::sync::{Arc, mpsc};

use gpool_model::Commit;
use gpool_store::Submitter;

use crate::input::CoreMessage;
use gpool_insight::lives::Lives;
use gpool_journal::codec;

/// The thread that does: a bulk submission has megabytes of rows.
pub struct Encoder {
    commits: Option<mpsc::Sender<Work>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

enum Work {
    Commit(Commit),
    /// Says when everything before has been handed to the store.
    Drain(mpsc::Sender<()>),
}

impl Encoder {
    pub fn spawn(
        store: Submitter,
        core: mpsc::Sender<CoreMessage>,
        lives: Arc<Lives>,
    ) -> std::io::Result<Self> {
        let (commits, inbox) = mpsc::channel::<Work>();
        let work = move || {
            for work in inbox {
                match work {
                    Work::Drain(done) => drop(done.send(())),
                    Work::Commit(commit) => {
                        lives.handed_over(&commit);
                        if let Err(error) = store.submit(codec::encode(commit)) {
                            // The core may be gone.
                            drop(core.send(CoreMessage::Committed(Err(error))));
                        }
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("encoder".to_owned()).spawn(work)?;
        Ok(Self { commits: Some(commits), thread: Some(thread) })
    }

    pub fn submit(&self, commit: Commit) {
        if let Some(commits) = &self.commits {
            // It lives until closed.
            drop(commits.send(Work::Commit(commit)));
        }
    }

    pub fn drain(&self) {
        let (done, wait) = mpsc::channel();
        if let Some(commits) = &self.commits
            && commits.send(Work::Drain(done)).is_ok()
        {
            // An error means that the thread is gone, and with it everything it had.
            let _ = wait.recv();
        }
    }

    pub fn close(&mut self) {
        self.commits = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the encoder thread panicked");
        }
    }
}
