//! Finds programs in the file system, as a shell does.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The folders with programs if the job has no `PATH`.
pub(super) const DEFAULT_SEARCH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Finds a program as a shell does, relative to the working directory.
pub(super) fn find(name: &str, search: &[u8]) -> Result<PathBuf, String> {
    use std::os::unix::ffi::OsStrExt;
    let usable = |path: &Path| {
        let about = std::fs::metadata(path)?;
        if about.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(io::Error::from)
    };
    if name.contains('/') {
        let path = PathBuf::from(name);
        return match usable(&path) {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no program {name}"))
            }
            Err(error) => Err(format!("can't run {name}: {error}")),
        };
    }
    let mut unusable = None;
    for folder in search.split(|byte| *byte == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let path = Path::new(std::ffi::OsStr::from_bytes(folder)).join(name);
        match usable(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                unusable.get_or_insert_with(|| format!("can't run {}: {error}", path.display()));
            }
        }
    }
    let search = String::from_utf8_lossy(search);
    Err(unusable.unwrap_or_else(|| format!("there is no program {name} in PATH ({search})")))
}

pub(super) fn as_path(path: &CStr) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()))
}

/// The interpreter of a script, from its `#!` line.
pub(super) fn interpreter(path: &Path) -> Option<String> {
    let mut start = [0; 256];
    let length = io::Read::read(&mut File::open(path).ok()?, &mut start).ok()?;
    let line = start[..length].split(|byte| *byte == b'\n').next()?.strip_prefix(b"#!")?;
    let line = String::from_utf8_lossy(line);
    line.trim_start().split([' ', '\t']).next().map(str::to_owned)
}
