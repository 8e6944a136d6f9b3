//! Jobs of a cluster in the order of their submission.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use gpool_model::{Millis, Timestamp};

use crate::table::{Table, TraceError};

/// The begin of a trace without dates: not the very first possible time.
pub(crate) const EPOCH: Timestamp = Timestamp::new(1_000_000);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceJob {
    /// The time of submission, in seconds.
    pub submit_s: u64,
    /// The run time, in seconds.
    pub duration_s: u64,
    /// How many devices it asks for.
    pub n_gpus: u32,
    /// The owner: a user, a team or a virtual cluster.
    pub owner: Arc<str>,
}

impl TraceJob {
    /// The time of second 0 in [`crate::queue`].
    pub const ZERO: Timestamp = EPOCH;

    /// Returns when it is submitted in [`crate::queue`].
    #[must_use]
    pub fn came_at(&self) -> Timestamp {
        Self::ZERO.after(Millis::new(self.submit_s.saturating_mul(1000)))
    }

    /// Returns its run time.
    #[must_use]
    pub fn duration(&self) -> Millis {
        Millis::new(self.duration_s.saturating_mul(1000))
    }
}

/// Reads jobs line by line: `submit_s,duration_s,gpus` and, if present, `vc`.
pub struct Jobs {
    table: Table,
    submit: usize,
    duration: usize,
    gpus: usize,
    owner: Option<usize>,
    /// The owners so far, each stored once.
    owners: BTreeSet<Arc<str>>,
    last_s: u64,
}

impl Jobs {
    /// Opens a trace.
    ///
    /// # Errors
    /// If the file can't be read, or lacks a column.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let table = Table::open(path)?;
        let submit = table.column("submit_s")?;
        let duration = table.column("duration_s")?;
        let gpus = table.column("gpus")?;
        let owner = table.optional("vc");
        let owners = BTreeSet::new();
        Ok(Self { table, submit, duration, gpus, owner, owners, last_s: 0 })
    }

    fn read(&mut self) -> Result<Option<TraceJob>, TraceError> {
        if !self.table.advance()? {
            return Ok(None);
        }
        let table = &self.table;
        let submit_s = table.value(self.submit, "seconds, a whole number")?;
        if submit_s < self.last_s {
            let expected = format!("{} or later: jobs must be sorted by submission", self.last_s);
            return Err(table.malformed(self.submit, &expected));
        }
        self.last_s = submit_s;
        let owner = self.owner.map_or("", |owner| table.text(owner));
        let owner = match self.owners.get(owner) {
            Some(known) => Arc::clone(known),
            None => Arc::from(owner),
        };
        self.owners.insert(Arc::clone(&owner));
        Ok(Some(TraceJob {
            submit_s,
            duration_s: table.value(self.duration, "seconds, a whole number")?,
            n_gpus: table.value(self.gpus, "a number of GPUs")?,
            owner,
        }))
    }
}

impl Iterator for Jobs {
    type Item = Result<TraceJob, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
