//! The wall clock.

use gpool_model::Timestamp;

#[must_use]
pub fn now() -> Timestamp {
    Timestamp::new(gpool_sys::clock::unix_ms())
}
