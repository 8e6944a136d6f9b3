//! The node-level scheduler: device choice, loans of memory, and agent convergence.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod action;
pub mod converge;
mod done;
pub mod lease;
pub mod loans;
mod moving;
mod placed;
mod places;
pub mod presence;
pub mod seating;
pub mod spread;
mod task;
