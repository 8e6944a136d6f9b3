//! A replacement of the driver's `libcuda.so.1`, so that programs that use CUDA run on machines
//! without a GPU. Its devices are those of the NVML stub (`GPOOL_STUB_STATE`), which reports the
//! memory and the processes of this library.
//!
//! Device memory is a sparse file of the process, so its content survives only where the real one
//! would: a checkpoint moves it to another file and a restore moves it back. Kernels do nothing
//! and are counted (`gpoolStubLaunches`). Checkpoint calls of other processes arrive at a socket
//! beside the state file, which a thread serves after `cuInit`.
//!
//! Faults come from the state file: `errors` and `hang` by symbol, and [`Cuda`].

#![allow(unsafe_code)] // A C library: exported symbols, and buffers of the caller.

mod allocate;
mod array_calls;
mod checkpoint;
mod checkpoint_calls;
mod code;
mod context;
mod context_calls;
mod copy_calls;
mod device_calls;
mod driver;
mod graph_calls;
mod heap;
mod launch_calls;
mod memory;
mod memory_calls;
mod pool_calls;
mod proc_address;
mod share_calls;
mod uuid;
mod virtual_calls;

use std::io;
use std::path::{Path, PathBuf};

pub use gpool_stub_state::{Cuda, Device, Live, Process, Record, STATE_FILE, State};

/// Copies the library into `folder` under the driver's name, and returns its path.
///
/// # Errors
/// If the built library is not near the running test, or can't be copied.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    gpool_stub_state::install("libgpool_stub_cuda.so", folder, "libcuda.so.1")
}
