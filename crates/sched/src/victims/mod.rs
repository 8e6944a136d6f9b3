//! Victims: which jobs have to leave so that a demand fits, and where it goes then.
//!
//! [`node`] answers for one node, [`order`] compares sets of victims, [`search`] finds the nodes
//! for all tasks of a job.

pub(crate) mod node;
pub(crate) mod order;
pub(crate) mod search;
