//! Traces of clusters: read line by line, played by the real scheduler, and measured. A trace has
//! the requests and their times; the results depend on the policy.

#![forbid(unsafe_code)]

pub mod baseline;
mod cluster;
mod coming;
mod fleet;
mod foresight;
pub mod interval;
pub mod jobs;
pub mod look;
pub mod openb;
mod outcome;
pub mod packer;
pub mod packing;
mod packing_live;
pub mod packing_policy;
pub mod paired;
pub mod queue;
mod table;

pub use cluster::{Cluster, Layout, Nodes, Place};
pub use coming::Coming;
pub use foresight::Foretold;
pub use table::{Cause, TraceError};

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::cluster::node;
    pub use crate::coming::Asking;
}
