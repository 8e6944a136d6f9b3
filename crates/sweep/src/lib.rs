//! Sweeps: parameters with their values or ranges, the trials of a grid or of random draws, and
//! the sweep files of W&B. It reads no files, and the seed of each draw is passed in.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod draw;
pub mod driver;
pub mod fault;
pub mod number;
pub mod parameter;
pub mod sweep;
pub mod trials;
pub mod wandb;
