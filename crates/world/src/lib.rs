//! The state of the cluster, indexed for the scheduler: jobs by shape and age, free counters of
//! nodes and devices. Every change passes one of a few doors, which keep the indexes true and
//! remember which records changed. Decides nothing.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod arrays;
mod asks;
mod change;
mod ends;
mod excerpt;
mod gangs;
mod index;
mod ledger;
mod lines;
pub mod order;
mod outbox;
mod parts;
mod past;
mod projects;
mod queue;
mod requests;
mod reservations;
mod rotations;
mod snapshot;
mod still;
mod used;
mod users;
mod waiting;
mod world;

pub use ends::{ExpectedEnd, ExpectedEnds, FreedOn};
pub use excerpt::Excerpt;
pub use index::fit_of;
pub use ledger::{DeviceLedger, Free, NodeRow};
pub use lines::{Asked, Head, Line, LineKey};
pub use outbox::Outbox;
pub use parts::GpuClass;
pub use projects::{Holding, ProjectIx, ProjectRow};
pub use queue::{FitIx, ShapeIx, ShapeQueue};
pub use snapshot::Snapshot;
pub use users::UserRow;
pub use waiting::{has_begun, latest_start};
pub use world::{JobRow, LoadError, NodeIx, World};
