//! Victims: the jobs that leave so that a demand fits, and its place then. The stages consolidate,
//! reclaim and preempt choose which jobs may leave; the search is the same for all of them.
//!
//! [`EvictionProblem`] is the demand and the state of the cluster, [`Evictable`] a job that may
//! leave, [`Evictions`] the evictions of a cycle so far. [`VictimNode`] answers for one node,
//! [`cost`] compares sets of victims, [`VictimSearch`] finds the nodes for all tasks of a job, a
//! [`Solution`].

mod backoff;
mod cost;
mod evictable;
mod evictions;
mod node;
mod search;

pub(crate) use backoff::Backoff;
pub(crate) use evictable::{ByNode, Evictable, Test, add_on_nodes, pauses_any};
pub(crate) use evictions::{EvictionProblem, Evictions, RoomAnswer, Solution};
pub(crate) use node::{VictimNode, leaving};
pub(crate) use search::{VictimSearch, fewest_that, in_order};
