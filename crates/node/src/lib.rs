//! The node-level scheduler: device choice and agent convergence.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

pub mod converge;
pub mod seating;
