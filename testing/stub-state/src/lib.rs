//! The common state of the stub drivers `libnvidia-ml.so.1` and `libcuda.so.1`: a JSON file with
//! devices and faults ([`State`]), and beside it a folder with the device memory of each live
//! process ([`Live`]), which the CUDA stub writes and the NVML stub reports.

mod limits;
mod live;
mod mig;
mod state;

use std::io;
use std::path::{Path, PathBuf};

pub use limits::{Limit, cgroup_of};
pub use live::{Live, Locked, Record, start_of};
pub use state::{Cuda, Device, Event, Fabric, GpuInstance, Instance, MigProfile, Process, State};

/// The name of the state file beside a library.
pub const STATE_FILE: &str = "stub-nvml.json";

/// The state file of this process: `GPOOL_STUB_STATE`, or the file beside the library that contains
/// this function, so that several copies of a library in one process can have different states.
///
/// # Errors
/// If the process has no list of mappings.
pub fn state_file() -> io::Result<PathBuf> {
    if let Some(file) = std::env::var_os("GPOOL_STUB_STATE") {
        return Ok(PathBuf::from(file));
    }
    let here = state_file as fn() -> io::Result<PathBuf> as usize;
    let library = library_at(here)?;
    let folder = library.parent().unwrap_or(Path::new("/"));
    Ok(folder.join(STATE_FILE))
}

/// The file that is mapped at an address. The kernel's list of mappings shows it without a C call.
///
/// # Errors
/// If there is no such mapping.
pub fn library_at(address: usize) -> io::Result<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let library = maps.lines().find_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let path = rest.get(rest.find('/')?..)?;
        range.contains(&address).then(|| PathBuf::from(path))
    });
    library.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// Copies a built library into `folder` as `name`, and returns its path. The loader treats each
/// copy as a separate library, with its own state file.
///
/// # Errors
/// If the built library is not near the running test, or can't be copied.
pub fn install(built: &str, folder: &Path, name: &str) -> io::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let built = exe
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|dir| [dir.join("deps"), dir.to_path_buf()])
        .map(|dir| dir.join(built))
        .find(|file| file.exists())
        .ok_or_else(|| {
            let why = format!("{built} is not near {}", exe.display());
            io::Error::new(io::ErrorKind::NotFound, why)
        })?;
    let library = folder.join(name);
    std::fs::copy(built, &library)?;
    Ok(library)
}
