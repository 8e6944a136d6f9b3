//! Capacity: free devices and host resources of each node over time, and whether a demand fits.
//!
//! [`Demand`] is the part of one node that a job needs. [`Capacity`] has the free devices and host
//! resources of all nodes while a plan is made, [`Holds`] the capacity that is held for planned
//! starts and reservations, [`Timeline`] the departures that are expected. [`Candidate`] is the
//! only answer to "does it fit on this node, and on which devices": now, at a time in the future,
//! or once some jobs have left. [`Bookings`] has the places of jobs that a search moves.

mod bookings;
mod cluster;
mod demand;
mod departures;
mod fits;
mod holds;
mod host_resources;
mod node;
mod placed;
pub mod task_spread;
mod timeline;
mod view;

pub(crate) use bookings::Bookings;
pub(crate) use cluster::Capacity;
pub(crate) use demand::{Demand, n_devices_on_node, seed};
pub(crate) use departures::{Departure, DeviceUse, Freed, NodeHoldings};
pub(crate) use fits::{Candidate, Departures, Drawbacks};
pub(crate) use holds::{Holds, reserved_for_others};
pub(crate) use host_resources::HostResources;
pub(crate) use node::{ModelRanks, NodeCapacity};
pub(crate) use placed::{Placed, n_missing, replace_on_node, times_on};
pub(crate) use task_spread::{most_times, share_out};
pub(crate) use timeline::{Planned, Timeline};
pub(crate) use view::View;
