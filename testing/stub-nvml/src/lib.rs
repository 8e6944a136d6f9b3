//! A replacement of the driver's `libnvidia-ml.so.1`, so that the real NVML path runs on machines
//! without a GPU. Its answers come from a JSON file that it reads at each call: devices, processes,
//! memory, faults, and errors and hangs by symbol. Values that the file does not have are reported
//! as not supported. To the processes and the memory in the file it adds those of live processes
//! that use the CUDA stub with the same file. It keeps the memory limits of cgroups for both stubs.
//!
//! The variable `GPOOL_STUB_STATE` names the file; the default is `stub-nvml.json` beside the
//! library, so that several copies in one process can have different states.

#![allow(unsafe_code)] // A C library: exported symbols, and buffers of the caller.

mod call;
mod detail_calls;
mod device_calls;
mod event_calls;
mod limit_calls;
mod link_calls;
mod mig_calls;
mod system_calls;

use std::io;
use std::path::{Path, PathBuf};

pub use gpool_stub_state::{
    Cuda, Device, Event, Fabric, GpuInstance, Instance, Live, MigProfile, Process, STATE_FILE,
    State, cgroup_of,
};

/// Copies the library into `folder` under the driver's name, and returns its path. The loader
/// treats each copy as a separate library, with its own state file.
///
/// # Errors
/// If the built library is not near the running test, or can't be copied.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    gpool_stub_state::install("libgpool_stub_nvml.so", folder, "libnvidia-ml.so.1")
}
