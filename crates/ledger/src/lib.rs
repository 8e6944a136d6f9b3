//! The ledger of one job on one node: how much memory its processes may use on each device, how
//! much they use, and a gate at which they wait while the job is paused. The agent creates it as a
//! folder with two files and a socket; the shim, in the job's processes, maps the files.
//!
//! To pause a job, the agent sets [`Gate::Pausing`], waits until no process synchronises, and has
//! the driver lock and checkpoint each process. [`Gate::Released`] then makes the next call of the
//! job ask for its devices. After the restore and the unlock of each process, the agent opens the
//! gate. The gate outlives the agent, so a new agent opens it, or continues the pause.
//!
//! This crate has the layout and the agent's side, and no policy. A job can write anything into its
//! `usage` file, or truncate it. So the agent reads that file and never maps it, and trusts only
//! the driver's figures.

#![allow(unsafe_code)] // Maps a file that the agent owns; reads the credentials of a socket.

mod ask;
mod grants;
pub mod layout;
mod ledger;
mod process;
mod usage;

pub use ask::{Answer, Question, QuestionSocket, Wish};
pub use grants::{Gate, Share};
pub use ledger::{Ledger, OpenError, Owner};
pub use usage::{CudaProcess, UsageError};
