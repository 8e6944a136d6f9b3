//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use gpool_model::Timestamp;

/// The wall clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
