//! The shim: a library with the name and the symbols of the driver's `libcuda.so.1`. A smaller one,
//! `nvml.rs`, has those of `libnvidia-ml.so.1`.
//!
//! Each symbol is an entry of two jumps in [`entries`], which leads through a table to the driver,
//! or to one of the functions in [`hooks`]. The first call of any symbol loads the driver, maps the
//! ledger and fills the table ([`start`]). Nothing happens before, so the library is harmless in a
//! program that never uses CUDA.
//!
//! Without a ledger, all entries lead to the driver: no `GPOOL_LEDGER`, or files that are
//! missing, too short or of another version. With a ledger but without an agent, the job may use
//! the granted memory and no more.
//!
//! Not counted: memory of sparse arrays after the release of its handles, multicast objects,
//! allocations by functions of `cuGetExportTable`, and the rounding of the driver. A pool that
//! grows by more than the allocation can exceed the grant; the next allocation is then refused.
//!
//! Rules of this code: no allocation except mappings for tables that grow; no thread; no lock that
//! processes share; no panic, which would end the program (a test checks that the library has
//! none); no error that the driver would not return.

#![no_std]
// Nearly every function is unsafe here, for the same reasons: the driver's types, the caller's
// pointers. Symbols have the driver's names.
#![allow(unsafe_op_in_unsafe_fn, non_upper_case_globals)]

mod ask;
mod charge;
mod cuda;
mod driver;
mod entries;
mod gate;
mod hooks;
mod kernel;
mod page;
mod process;
mod rust;
mod start;
mod table;

/// The properties of this library for the modules that both shims have.
use cuda as library;

#[path = "../../ledger/src/layout.rs"]
#[allow(dead_code)]
mod layout;
