//! Writes commits: any number in one transaction, all or none. The committer waits for more of them
//! and sends the messages.

use gpool_model::{JobNumber, Revision, Seq, Term};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, ffi, params};

use crate::error::CommitError;
use crate::hash::{self, Checksum};
use crate::head::{Head, signed};
use crate::mark::Mark;
use crate::open::Store;
use crate::row::{ArchiveEntry, Commit, GroupEntry, JournalEntry, RecordChange};
use crate::{elements, schema, spare};

impl Store {
    /// Returns how many of `commits`, from the first, may follow the stored ones, and the error of
    /// the next one.
    #[must_use]
    pub fn check(&self, commits: &[Commit]) -> (usize, Option<CommitError>) {
        let mut last = CommitPosition::of(&self.head);
        for (n_good, commit) in commits.iter().enumerate() {
            if let Err(error) = last.step(commit) {
                return (n_good, Some(error));
            }
        }
        (commits.len(), None)
    }

    /// Makes commits durable in one transaction, and returns the last revision.
    ///
    /// # Errors
    /// If none of them could be stored.
    pub fn commit(&mut self, commits: &[Commit]) -> Result<Revision, CommitError> {
        if let (_, Some(error)) = self.check(commits) {
            return Err(error);
        }
        // Before, so that nothing is written to removed files; after, so that no such commit is
        // acknowledged.
        self.presence.check()?;
        let is_first = self.head.revision == Revision(0);
        let mut written = self.write(commits);
        // Once the log is full, no commit succeeds that would cause a checkpoint.
        if matches!(written, Err(CommitError::StorageFull)) && self.fold_log() {
            written = self.write(commits);
        }
        match written {
            Ok((head, n_spare)) => {
                self.head = head;
                self.spare.note(n_spare);
            }
            Err(error) => {
                self.sound &= !matches!(error, CommitError::Corrupt(_));
                return Err(error);
            }
        }
        if is_first {
            // So that the database alone shows that something was committed: a database without its
            // log and mark would otherwise pass as new.
            self.fold_log();
        }
        self.presence.check()?;
        // The commit is durable; an older mark only detects less if the end of the log is lost.
        if let Err(error) = self.mark.set(&Mark::of(&self.head)) {
            tracing::warn!(path = %self.paths.mark.display(), %error, "can't write the mark");
        }
        fail::fail_point!("store-commit-marked");
        // Attempts on a full disk may take long. The caller decides when to make one.
        if self.reserve.is_whole() {
            self.reserve.fill();
            self.fill_spare();
        }
        Ok(self.head.revision)
    }

    /// Copies the log into the database. Returns whether nothing is missing there: then the next
    /// commit uses the log from its beginning, unless a reader still needs the log.
    pub(crate) fn fold_log(&self) -> bool {
        let folded = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        match folded {
            Ok((n_frames, n_copied)) => n_frames == n_copied,
            Err(error) => {
                tracing::warn!(path = %self.paths.database.display(), %error, "can't copy the log \
                                                                               into the database");
                false
            }
        }
    }

    /// Makes the spare pages complete again if few are left and there is room.
    pub(crate) fn fill_spare(&mut self) {
        if !self.spare.is_due(self.head.revision) || self.room().check().is_err() {
            return;
        }
        // The log begins again, so that it hardly becomes longer than with commits alone.
        self.fold_log();
        let dir = &self.paths.dir;
        match self.spare.make_in(&mut self.connection, dir) {
            // The pages in the log get their blocks in the database.
            Ok(()) => drop(self.fold_log()),
            Err(error) => {
                tracing::warn!(path = %dir.display(), %error, "can't make spare pages");
                self.spare.rest(self.head.revision);
            }
        }
        self.reserve.fill();
    }

    /// Returns the new head and the number of free pages.
    fn write(&mut self, commits: &[Commit]) -> Result<(Head, u64), CommitError> {
        fail::fail_point!("store-commit-begin");
        let dir = self.paths.dir.clone();
        let sqlite = |error: rusqlite::Error| CommitError::sqlite(&error, &dir);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sqlite)?;
        let mut head = self.head.clone();
        // No other process writes. If one does, the conflict is found before its data is
        // overwritten.
        match Head::read(&transaction).map_err(sqlite)? {
            Ok(stored) if stored == head => {}
            Ok(_) => return Err(CommitError::Corrupt("another program wrote to it".to_owned())),
            Err(what) => return Err(CommitError::Corrupt(format!("meta: {what}"))),
        }
        for commit in commits {
            for change in &commit.records {
                put_record(&transaction, &mut head, commit.revision, change).map_err(sqlite)?;
            }
            for entry in &commit.journal {
                append(&transaction, &mut head, entry).map_err(sqlite)?;
            }
            for entry in &commit.archive {
                archive(&transaction, &mut head, entry).map_err(|error| {
                    duplicate(&error, entry.job).unwrap_or_else(|| sqlite(error))
                })?;
            }
            for entry in &commit.elements {
                elements::insert(&transaction, &mut head, entry).map_err(|error| {
                    duplicate(&error, entry.job).unwrap_or_else(|| sqlite(error))
                })?;
            }
            for entry in &commit.groups {
                group(&transaction, entry).map_err(sqlite)?;
            }
            head.fence = commit.fence;
            head.revision = commit.revision;
        }
        head.write(&transaction).map_err(sqlite)?;
        let n_spare = spare::count(&transaction).map_err(sqlite)?;
        fail::fail_point!("store-commit-written");
        transaction.commit().map_err(sqlite)?;
        fail::fail_point!("store-commit-durable");
        Ok((head, n_spare))
    }
}

/// The position after the previous commits.
struct CommitPosition {
    fence: Term,
    revision: Revision,
    seq: Seq,
}

impl CommitPosition {
    fn of(head: &Head) -> Self {
        Self { fence: head.fence, revision: head.revision, seq: head.seq }
    }

    fn step(&mut self, commit: &Commit) -> Result<(), CommitError> {
        if commit.fence < self.fence {
            return Err(CommitError::Fenced { stored: self.fence, stale: commit.fence });
        }
        self.fence = commit.fence;
        if commit.revision != self.revision.next() {
            return Err(CommitError::OutOfOrder(format!(
                "revision {} after {}",
                commit.revision, self.revision
            )));
        }
        self.revision = commit.revision;
        for entry in &commit.journal {
            if entry.seq != self.seq.next() {
                return Err(CommitError::OutOfOrder(format!(
                    "journal {} after {}",
                    entry.seq, self.seq
                )));
            }
            self.seq = entry.seq;
        }
        Ok(())
    }
}

fn put_record(
    connection: &Connection,
    head: &mut Head,
    revision: Revision,
    change: &RecordChange,
) -> rusqlite::Result<()> {
    let (kind, key) = (&change.kind, &change.key);
    let old: Option<Checksum> = connection
        .prepare_cached("SELECT checksum FROM record WHERE kind = ?1 AND key = ?2")?
        .query_row(params![kind, key], |row| row.get(0))
        .optional()?;
    if let Some(old) = &old {
        head.records.remove(old);
    }
    match &change.value {
        Some(value) => {
            let checksum = hash::record_checksum(kind, key, revision, value);
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO record (kind, key, revision, checksum, value) \
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![kind, key, signed(revision.0), checksum, value])?;
            head.records.add(&checksum);
        }
        None => {
            connection
                .prepare_cached("DELETE FROM record WHERE kind = ?1 AND key = ?2")?
                .execute(params![kind, key])?;
        }
    }
    Ok(())
}

fn append(connection: &Connection, head: &mut Head, entry: &JournalEntry) -> rusqlite::Result<()> {
    head.chain = hash::chain_after(&head.chain, entry);
    head.seq = entry.seq;
    connection
        .prepare_cached("INSERT INTO journal (seq, time, chain, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![signed(entry.seq.0), signed(entry.time.get()), head.chain, entry.body])?;
    Ok(())
}

fn archive(connection: &Connection, head: &mut Head, entry: &ArchiveEntry) -> rusqlite::Result<()> {
    let checksum = hash::archive_checksum(entry);
    connection
        .prepare_cached(
            "INSERT INTO archive (job, ended_at, user, project, name, state, checksum, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            signed(entry.job.0),
            signed(entry.ended_at.get()),
            entry.user,
            entry.project,
            entry.name,
            entry.state,
            checksum,
            entry.body,
        ])?;
    head.archive.add(&checksum);
    Ok(())
}

fn group(connection: &Connection, entry: &GroupEntry) -> rusqlite::Result<()> {
    connection.execute_batch(schema::GROUPS)?;
    connection
        .prepare_cached("INSERT INTO archive_group (name, job) VALUES (?1, ?2)")?
        .execute(params![entry.name, signed(entry.job.0)])?;
    Ok(())
}

fn duplicate(error: &rusqlite::Error, job: JobNumber) -> Option<CommitError> {
    // An ended job never changes.
    (error.sqlite_error_code() == Some(ffi::ErrorCode::ConstraintViolation))
        .then(|| CommitError::OutOfOrder(format!("job {job} is already in the archive")))
}
