//! The verbs that are not a simulation.

pub mod bench;
pub mod replay;
