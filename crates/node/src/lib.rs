//! The node-level scheduler: device choice and agent convergence.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod action;
pub mod converge;
mod done;
pub mod seating;
