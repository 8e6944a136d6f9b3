//! The state of the cluster, indexed for the scheduler: jobs by shape and age, free capacity of
//! nodes and devices. A few functions make all changes, keep the indexes true and record which
//! records changed. This crate decides nothing.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod budgets;
mod device_filter;
mod ends;
mod ledger;
mod lines;
pub mod order;
mod outbox;
mod past;
mod queue;
mod row;
mod snapshot;
mod world;

pub use device_filter::{Unusable, unusable};
pub use ends::{ExpectedEnd, ExpectedEnds, FreedOn};
pub use ledger::{DeviceLedger, Free, NodeRow};
pub use lines::{LineDemand, PendingQueue, PendingQueueKey, QueueHead};
pub use outbox::Outbox;
pub use queue::ShapeQueue;
pub use row::{FitIx, JobRow, NodeIx, ProjectIx, ShapeIx};
pub use snapshot::Snapshot;
pub use world::evictable::EvictableRank;
pub use world::excerpt::Excerpt;
pub use world::index::fits_of;
pub use world::parts::GpuClass;
pub use world::projects::{Holding, ProjectRow};
pub use world::users::UserRow;
pub use world::waiting::{first_start, has_begun, latest_start};
pub use world::{LoadError, World};

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::past::Past;

    /// The number of users with remembered requests.
    #[must_use]
    pub fn n_users_with_requests(world: &crate::World) -> usize {
        world.requests_of.len()
    }
}
