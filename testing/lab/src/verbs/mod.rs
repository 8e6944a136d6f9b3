//! The verbs that are not simulations.

pub mod bench;
pub mod replay;
