//! The shim and the ledger with real processes in C, Rust and Python, against stubs of the driver.

// Other machines have no shim.
#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#![allow(unsafe_code)] // Calls the driver's library.
#![allow(clippy::unwrap_used, missing_docs)] // A test may end by a panic, and has no readers.

mod agent;
mod allocations;
mod checkpoint;

mod damage;
mod gate;
mod library;
mod limits;
mod moved;
mod program;
mod rig;
mod routes;
mod stubs;
mod table;

// The shim's own files name it as their crate does.
use table::kernel;
