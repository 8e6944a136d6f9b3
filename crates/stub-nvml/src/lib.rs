//! A replacement of the driver's `libnvidia-ml.so.1`, so that the real NVML path runs on machines
//! without a GPU. Its answers come from a JSON file that it reads at each call: devices, processes,
//! memory, faults, and errors and hangs by symbol. It computes nothing; values that the file does
//! not have are reported as not supported.
//!
//! The variable `GPOOL_STUB_STATE` names the file; the default is `stub-nvml.json` beside the
//! library, so that several copies in one process can have different states.

#![allow(unsafe_code)] // A C library: exported symbols, and buffers of the caller.

mod call;
mod device_calls;
mod event_calls;
mod link_calls;
mod state;
mod system_calls;

use std::io;
use std::path::{Path, PathBuf};

pub use state::{Device, Event, Instance, Process, State};

/// The name of the state file beside the library.
pub const STATE_FILE: &str = "stub-nvml.json";

/// Copies the library into `folder` under the driver's name, and returns its path. The loader
/// treats each copy as a separate library, with its own state file.
///
/// # Errors
/// If the built library is not near the running test, or can't be copied.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let built = exe
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|dir| [dir.join("deps"), dir.to_path_buf()])
        .map(|dir| dir.join("libgpool_stub_nvml.so"))
        .find(|file| file.exists())
        .ok_or_else(|| {
            let why = format!("libgpool_stub_nvml.so is not near {}", exe.display());
            io::Error::new(io::ErrorKind::NotFound, why)
        })?;
    let library = folder.join("libnvidia-ml.so.1");
    std::fs::copy(built, &library)?;
    Ok(library)
}
