//! The state of the cluster, indexed for the scheduler.
