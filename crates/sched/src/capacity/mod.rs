//! Capacity: free devices and host resources of each node over time, and whether a demand fits.
//!
//! [`Demand`] is what a job needs of one node. [`Capacity`] has the free devices and host resources
//! of all nodes while a plan is made, [`Holds`] the capacity that is held for planned starts and
//! reservations, [`Timeline`] the departures that are expected. [`Candidate`] is the only answer to
//! "does it fit on this node, and on which devices": now, at a time in the future, or once some
//! jobs have left.

mod cluster;
mod demand;
mod device_filter;
mod fits;
mod holds;
mod host_resources;
mod node;
mod placed;
mod task_spread;
mod timeline;

pub(crate) use cluster::Capacity;
pub(crate) use demand::{Demand, n_devices_on_node, seed};
pub use device_filter::{Unusable, unusable};
pub(crate) use fits::{Candidate, Departures, Freed, View};
pub(crate) use holds::{Departure, Holds};
pub(crate) use host_resources::HostResources;
pub(crate) use node::{ModelRanks, NodeCapacity};
pub(crate) use placed::{Placed, n_missing, placements, put, times_on};
pub(crate) use task_spread::{most_times, share_out};
pub(crate) use timeline::Timeline;
