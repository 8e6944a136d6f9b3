//! A stand-in for the driver's `libnvidia-ml.so.1`, so that the real NVML path runs where there is
//! no GPU. What it answers stands in a JSON file that is read again at each call: devices,
//! processes, memory, faults, errors and hangs per symbol. It computes nothing: it says what the
//! file says, and what the file does not say is not supported.
//!
//! The file is the one named by `GPOOL_STUB_STATE`, else `stub-nvml.json` beside the library, so
//! that several copies in one process can tell different stories.

#![allow(unsafe_code)] // A C library: exported symbols and buffers that belong to the caller.

mod call;
mod device_calls;
mod event_calls;
mod link_calls;
mod state;
mod system_calls;

use std::io;
use std::path::{Path, PathBuf};

pub use state::{Device, Event, Instance, Process, State};

/// The name of the state file beside the library, where the environment names none.
pub const STATE_FILE: &str = "stub-nvml.json";

/// Puts a copy of the library into `folder` under the driver's name, and says where. Each copy is a
/// library of its own to the loader, with its own state file.
///
/// # Errors
/// If cargo's build of the library is not beside the running test, or can't be copied.
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
