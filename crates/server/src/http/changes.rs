//! How much each user may change: changes are stored for long, so a loop of them must not fill the
//! disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpool_model::Bytes;
use gpool_wire::{Problem, catalogue};
use serde_json::Value;

use super::asker::Asker;
use super::routes::Route;
use crate::pool::Rates;
use crate::pool::Source;

/// What a user may change at once, as bytes: in changes, and in new jobs.
const AT_ONCE: (u64, u64) = (16 << 20, 48 << 20);
/// What each new job and each change is counted as beside its values.
const EACH: u64 = 1 << 10;
/// The longest wait after a change that is larger than all this: a bulk submission.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// From one source, refused requests have an entry each up to this number at once, then one in this
/// time.
const DENIED: (u32, Duration) = (20, Duration::from_secs(60));

/// The bytes of a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub request: u64,
    pub answer: u64,
    /// Of its entry in the audit log.
    pub entry: u64,
}

/// The bytes that users store by their changes. Administrators have no limit.
#[derive(Clone)]
pub(crate) struct Changes {
    per_hour: Bytes,
    changes: Rates,
    new_jobs: Rates,
}

impl Changes {
    /// The bytes of one user in an hour, beside [`AT_ONCE`].
    pub fn new(per_hour: Bytes) -> Self {
        let each_byte = Duration::from_secs(3600).as_nanos() / u128::from(per_hour.get().max(1));
        let each_byte = u64::try_from(each_byte.max(1)).unwrap_or(u64::MAX);
        let rates = |at_once: u64| {
            let burst = Duration::from_nanos(each_byte.saturating_mul(at_once));
            Rates::every(Duration::from_nanos(each_byte), burst)
        };
        Self { per_hour, changes: rates(AT_ONCE.0), new_jobs: rates(AT_ONCE.1) }
    }

    fn of(&self, row: &Route) -> &Rates {
        let is_new = matches!(row.path, "/api/v1/jobs" | "/api/v1/jobs/bulk");
        if is_new { &self.new_jobs } else { &self.changes }
    }

    /// Refuses a change of a user that has changed too much.
    pub fn check(&self, asker: &Asker, row: &Route) -> Result<(), Problem> {
        if !row.is_counted || asker.caller.admin {
            return Ok(());
        }
        match self.of(row).may_take(asker.caller.owner.uid, Instant::now()) {
            true => Ok(()),
            false => {
                let what = format!("you have changed more than {} in an hour", self.per_hour);
                Err(Problem::new(catalogue::TOO_MUCH_CHANGED, what))
            }
        }
    }

    /// Counts the bytes and the new jobs of a change.
    pub fn charge(&self, asker: &Asker, row: &Route, stored: Stored, answer: &Value) {
        let n_jobs = answer["n_jobs"].as_u64().unwrap_or(1);
        let values = match row.path {
            // Environments and scripts are files, with a limit of their own.
            "/api/v1/jobs" => stored.answer,
            _ => stored.request,
        };
        let n_bytes = values.saturating_add(stored.entry);
        let n_bytes = n_bytes.saturating_add(EACH.saturating_mul(n_jobs));
        self.of(row).charge(asker.caller.owner.uid, n_bytes, WAIT_MAX, Instant::now());
    }
}

/// Which refused requests have an entry in the audit log.
#[derive(Clone)]
pub(crate) struct Denials {
    entries: Rates<Source>,
    /// Refused requests without an entry since the last one.
    n_more: Arc<Mutex<HashMap<Source, u64>>>,
}

impl Default for Denials {
    fn default() -> Self {
        let (at_once, every) = DENIED;
        Self { entries: Rates::every(every, every * at_once), n_more: Arc::default() }
    }
}

impl Denials {
    /// Counts a refused request; returns the number of those without an entry before it, if it has
    /// one.
    pub fn next(&self, source: Source, now: Instant) -> Option<u64> {
        let has_entry = self.entries.take(source, now);
        let mut n_more = self.n_more.lock().unwrap_or_else(PoisonError::into_inner);
        if has_entry {
            return Some(n_more.remove(&source).unwrap_or(0));
        }
        *n_more.entry(source).or_default() += 1;
        None
    }
}
