//! Traces of clusters: read as they come, played by the scheduler that runs jobs, and measured. A
//! trace says what was asked of a cluster and when; what comes of it is a matter of the policy.

#![forbid(unsafe_code)]

pub mod baseline;
mod cluster;
mod coming;
mod fleet;
mod foresight;
pub mod jobs;
pub mod openb;
mod outcome;
pub mod packing;
mod packing_live;
pub mod packing_policy;
pub mod queue;
pub mod scene;
mod table;

pub use cluster::{Cluster, Layout, Nodes, Place};
pub use coming::Coming;
pub use foresight::Foretold;
pub use table::{Cause, TraceError};
