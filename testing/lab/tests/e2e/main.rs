//! The laboratory from the user's side: `gpool bench`, `gpool replay` and `gpool simulate`. The
//! binary `gpool` must be built, and runs the `gpool-lab` beside it.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test that meets the unexpected ends there"
)]

#[allow(dead_code, unused_imports, reason = "the tests of gpool use the rest")]
#[path = "../../../../crates/gpool/tests/e2e/harness/mod.rs"]
mod harness;
#[allow(dead_code, reason = "the tests of gpool use the rest")]
#[path = "../../../../crates/gpool/tests/it/place.rs"]
mod place;

/// The path that `place` expects.
mod program {
    pub use crate::harness::program;
}

mod bench;
mod found;
mod history;
mod replay;
mod results;
mod simulations;
