//! Internals for the tests of this crate, in `tests/it`.

pub use crate::agent::await_launches;
pub use crate::done::Done;
pub use crate::facts::{capacity, capacity_with, memory};
pub use crate::isolation::Isolation;
pub use crate::job_files::{JobFiles, JobsByGpu};
pub use crate::recent::Recent;
pub use crate::topology::{rack, switches};
