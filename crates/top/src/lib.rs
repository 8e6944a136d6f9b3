//! The full-screen view of `gpool top`: state, keys and data in, a picture out. Pure: it does no
//! input or output and reads no clock, so tests compare whole pictures.

#![forbid(unsafe_code)]

mod chart;
mod confirm;
pub mod data;
mod detail;
mod draw;
pub mod history;
pub mod input;
pub mod kinds;
mod list;
mod output;
mod picture;
mod state;
mod table;

pub use picture::lines;
pub use state::{Setup, Top};

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::output::{lines, wrapped};
}
