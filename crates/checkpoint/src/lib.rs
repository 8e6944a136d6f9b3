//! Pauses the GPU work of running processes without loss: NVIDIA's driver copies the GPU memory of
//! a process to host memory and frees the device, and later restores it. The calls are
//! `cuCheckpointProcess…` in `libcuda.so.1`.
//!
//! A driver call may hang, and the driver does not survive every mistake. So no process that
//! matters makes one: a *keeper* process carries out one [`Plan`] for one task, and each of its
//! driver calls runs in a helper process with a deadline. [`pause`], [`resume`] and [`release`] are
//! the sequences, over a [`Machine`]. Which processes can be paused is in `rules`.
//!
//! A keeper can be killed at any time. The driver keeps the state of each process, and the same
//! plan continues from there.

#![allow(unsafe_code)] // Calls functions of the driver's library.

mod call;
mod driver;
mod helper;
mod host;
mod look;
mod machine;
mod moving;
mod pause;
mod plan;
mod probe;
mod record;
mod resume;
mod room;
mod rules;
mod work;

pub use call::{
    Call, CallError, CallOutcome, DeviceSnapshot, Probe, ProcessState, Request, SeenDevice,
    SeenProcess,
};
pub use helper::ask;
pub use machine::{Facts, Gate, Machine};
pub use pause::{NotPaused, pause};
pub use plan::{ARGUMENT, Aim, Deadlines, Drivers, Plan, ResidentProcess, Say, Work};
pub use probe::{Capability, probe};
pub use resume::{NotResumed, release, resume};
pub use work::main;

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::driver::uuid_bytes;
    pub use crate::host::{headroom_in, n_uvm_mappings};
    pub use crate::rules::{branch, refusal_of_driver};
}
