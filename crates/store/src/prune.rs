//! Limits the journal: drops the oldest entries and records the new start with its chain, so that
//! the chain of the rest can still be verified.

use gpool_model::Seq;
use rusqlite::{TransactionBehavior, params};

use crate::chain;
use crate::error::CommitError;
use crate::head::signed;
use crate::mark::Mark;
use crate::open::Store;

/// The largest number of entries dropped at once, so that no commit waits long.
const AT_ONCE: u64 = 8192;

impl Store {
    /// Drops a bounded number of the oldest journal entries once many are beyond the number to
    /// keep. A failure does no harm: the store tries again later.
    pub fn prune(&mut self) {
        let n_entries = self.head.seq.0.saturating_sub(self.keep.start.0);
        let n_surplus = n_entries.saturating_sub(self.keep.n_entries);
        let is_due = n_surplus >= (self.keep.n_entries / 2).clamp(1, AT_ONCE / 2);
        if !is_due || self.head.seq < self.keep.rest_until {
            return;
        }
        // The reserve is for commits.
        if self.room().check().is_err() {
            return;
        }
        let to = Seq(self.keep.start.0 + n_surplus.min(AT_ONCE));
        if let Err(error) = self.drop_up_to(to) {
            tracing::warn!(path = %self.paths.dir.display(), %error, "can't remove old journal \
                                                                      entries");
            self.keep.rest_until = Seq(self.head.seq.0.saturating_add(AT_ONCE));
        }
    }

    fn drop_up_to(&mut self, seq: Seq) -> Result<(), CommitError> {
        let dir = self.paths.dir.clone();
        let sqlite = |error: rusqlite::Error| CommitError::sqlite(&error, &dir);
        // An older mark could not be compared with a journal that starts after it.
        self.mark
            .set(&Mark::of(&self.head))
            .and_then(|()| self.mark.sync())
            .map_err(|error| CommitError::Io(error.to_string()))?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sqlite)?;
        let chain = chain::chain_at(&transaction, seq).map_err(sqlite)?;
        let chain = chain.ok_or_else(|| CommitError::Corrupt(format!("journal {seq}: missing")))?;
        let dropped = transaction
            .execute("DELETE FROM journal WHERE seq <= ?1", [signed(seq.0)])
            .and_then(|_| {
                transaction.execute(
                    "INSERT OR REPLACE INTO journal_start (one, seq, chain) VALUES (1, ?1, ?2)",
                    params![signed(seq.0), chain],
                )
            });
        dropped.and_then(|_| transaction.commit()).map_err(sqlite)?;
        self.keep.start = seq;
        Ok(())
    }
}
