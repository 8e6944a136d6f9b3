//! The shim for drivers without memory limits of their own: a library in front of the driver's
//! `libcuda.so.1`. Its folder comes first in the `LD_LIBRARY_PATH` of a job, so programs load it by
//! the driver's name. Every symbol leads to the driver. Allocations are charged to the job's ledger
//! first (crate `gpool-ledger`), and synchronisations wait while the job is paused.
//!
//! A second library does the same for NVML, and only shows the job its own share.
//!
//! A job can bypass both: by another `LD_LIBRARY_PATH`, by loading the driver by its path, or by
//! system calls. So the agent compares the ledger with the driver's figures.
//!
//! The sources in `front` are not part of this crate: `build.rs` compiles them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A library of the shim: its name, which is the driver's, and its content.
pub type Library = (&'static str, &'static [u8]);

/// The libraries for programs on this machine's architecture: CUDA, and NVML, which shows a job its
/// own share. None for an architecture without shim.
#[must_use]
pub const fn libraries() -> &'static [Library] {
    #[cfg(has_shim)]
    return &[
        ("libcuda.so.1", include_bytes!(concat!(env!("OUT_DIR"), "/cuda/libcuda.so.1"))),
        ("libnvidia-ml.so.1", include_bytes!(concat!(env!("OUT_DIR"), "/nvml/libnvidia-ml.so.1"))),
    ];
    #[cfg(not(has_shim))]
    return &[];
}

/// Writes the libraries into a folder that every user can read, unless they are there. Running
/// programs keep older files.
///
/// # Errors
/// If there are no libraries for this architecture, or they can't be written.
pub fn install(folder: &Path) -> io::Result<()> {
    if libraries().is_empty() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    for (name, library) in libraries() {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|found| found == *library) {
            continue;
        }
        let draft = folder.join(format!("{name}.{}", std::process::id()));
        fs::write(&draft, library)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))?;
        fs::rename(draft, &path)?;
    }
    Ok(())
}
