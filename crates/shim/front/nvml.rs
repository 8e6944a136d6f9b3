//! The shim of NVML: a library with the name and the symbols of the driver's `libnvidia-ml.so.1`.
//! It shows a job the memory of its own share, and leads all other calls to the driver. The modules
//! are those of the shim of CUDA (`lib.rs`), with the same rules.

#![no_std]
// Nearly every function is unsafe here, for the same reasons: the driver's types, the caller's
// pointers. Symbols have the driver's names.
#![allow(unsafe_op_in_unsafe_fn, non_upper_case_globals)]
// The modules have functions that only the other shim needs.
#![allow(dead_code)]

mod driver;
mod entries;
mod kernel;
mod page;
mod rust;
mod shares;
mod start;

/// The properties of this library for the modules that both shims have.
use shares as library;

#[path = "../../ledger/src/layout.rs"]
mod layout;
