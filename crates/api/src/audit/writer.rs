//! Writes audit entries beside the threads that answer. Entries that come while others are written
//! are written together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpool_wire::AuditEntry;
use tokio::sync::oneshot;

use gpool_identity::audit::{Audit, AuditKind};

/// The entries of one log that wait to be written.
pub(crate) struct Writer {
    audit: Arc<Audit>,
    queue: Mutex<AuditQueue>,
}

#[derive(Default)]
struct AuditQueue {
    /// In the order of their numbers.
    waiting: Vec<QueuedEntry>,
    /// Whether a thread writes until none waits.
    is_active: bool,
}

struct QueuedEntry {
    kind: AuditKind,
    entry: AuditEntry,
    /// Gets the length of the written entry.
    reply: oneshot::Sender<u64>,
}

impl Writer {
    pub fn new(audit: Arc<Audit>) -> Arc<Self> {
        Arc::new(Self { audit, queue: Mutex::default() })
    }

    fn queue(&self) -> MutexGuard<'_, AuditQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an entry; returns its length, or 0 if it could not be written: the change is made and
    /// stored, so the caller gets its answer.
    pub async fn write(self: &Arc<Self>, kind: AuditKind, entry: AuditEntry) -> u64 {
        let (reply, written) = oneshot::channel();
        let was_active = {
            let mut queue = self.queue();
            queue.waiting.push(QueuedEntry { kind, entry, reply });
            std::mem::replace(&mut queue.is_active, true)
        };
        if !was_active {
            let writer = Arc::clone(self);
            tokio::task::spawn_blocking(move || writer.work());
        }
        written.await.unwrap_or(0)
    }

    fn work(&self) {
        while let Some(all) = self.next() {
            let (entries, replies): (Vec<_>, Vec<_>) =
                all.into_iter().map(|it| ((it.kind, it.entry), it.reply)).unzip();
            let written = catch_unwind(AssertUnwindSafe(|| self.audit.add_all(entries)));
            // A panic was logged; the replies are dropped.
            for (reply, n_bytes) in replies.into_iter().zip(written.into_iter().flatten()) {
                let n_bytes = n_bytes.unwrap_or_else(|error| {
                    tracing::error!(%error, "can't write the audit log");
                    0
                });
                // The caller may be gone.
                let _ = reply.send(n_bytes);
            }
        }
    }

    /// Takes all that wait; with none, the work is over.
    fn next(&self) -> Option<Vec<QueuedEntry>> {
        let mut queue = self.queue();
        let all = std::mem::take(&mut queue.waiting);
        queue.is_active = !all.is_empty();
        queue.is_active.then_some(all)
    }
}
