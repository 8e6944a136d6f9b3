//! The folder of a run, and the files in it that gpool writes.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::layout::Layout;
use crate::message::DeviceMemory;

/// The file with the end of the run's time, written once it differs from the environment's.
const DEADLINE: &str = "deadline";

/// Makes the folder of a run. The folders above it belong to the agent; others may only pass
/// through.
pub(super) fn make_folder(layout: &Layout, folder: &Path) -> Result<(), String> {
    let mut path = PathBuf::from(layout.state());
    let below = folder.strip_prefix(layout.state()).unwrap_or(folder);
    let parts: Vec<_> = below.components().collect();
    for (depth, part) in parts.iter().enumerate() {
        path.push(part);
        let mode = if depth + 1 == parts.len() { 0o700 } else { 0o711 };
        match std::fs::DirBuilder::new().mode(mode).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(format!("can't create the folder {}: {error}", path.display()));
            }
        }
    }
    Ok(())
}

pub(super) fn give(folder: &Path, owner: Option<(u32, u32)>, mode: u32) -> Result<(), String> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    lchown(folder, Some(uid), Some(gid))
        .and_then(|()| std::fs::set_permissions(folder, Permissions::from_mode(mode)))
        .map_err(|error| format!("can't give {} to the user: {error}", folder.display()))
}

pub(super) fn write_script(
    path: &Path,
    bytes: &[u8],
    owner: Option<(u32, u32)>,
) -> Result<(), String> {
    let write = || {
        let mut file = File::options().write(true).create_new(true).mode(0o700).open(path)?;
        file.write_all(bytes)?;
        owner.map_or(Ok(()), |(uid, gid)| fchown(&file, Some(uid), Some(gid)))
    };
    write().map_err(|error| format!("can't write the script {}: {error}", path.display()))
}

/// Writes the end of the run's time into its folder, in seconds since 1970, or `none`.
pub(super) fn write_deadline(
    folder: &Path,
    owner: Option<(u32, u32)>,
    over_at: Option<u64>,
) -> io::Result<()> {
    let text = over_at.map_or("none".to_owned(), |seconds| seconds.to_string());
    write_file(&folder.join(DEADLINE), owner, &format!("{text}\n"))
}

/// Writes the device memory that a task may use into its file: a line for each device, with its
/// UUID, the request and the most memory, in bytes.
pub(super) fn write_memory(
    path: &Path,
    owner: Option<(u32, u32)>,
    devices: &[DeviceMemory],
) -> io::Result<()> {
    let line = |it: &DeviceMemory| {
        let (request, limit) = (it.request.get(), it.limit.get());
        format!("{} {request} {limit}\n", it.device)
    };
    let text: String = devices.iter().map(line).collect();
    write_file(path, owner, &text)
}

/// Reads the first bytes of a file that the user of the run may have replaced by a link or a FIFO:
/// `None` unless it is a regular file that can be read.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> Option<String> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a file into the folder of a run. The folder belongs to the user, so no existing file is
/// opened; the file is replaced as a whole.
pub(super) fn write_file(path: &Path, owner: Option<(u32, u32)>, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    // Left by a shepherd that was killed here, or made by the job.
    let _ = std::fs::remove_file(&new);
    let mut file = File::options().write(true).create_new(true).mode(0o644).open(&new)?;
    file.write_all(text.as_bytes())?;
    if let Some((uid, gid)) = owner {
        fchown(&file, Some(uid), Some(gid))?;
    }
    std::fs::rename(&new, path)
}

/// Makes a new output file for a task. The folder belongs to the user by then: an existing file of
/// that name, especially a link, is replaced and never opened. The file belongs to the user as soon
/// as it has its name, since readers reject files of other users.
pub fn make_output(path: &Path, owner: Option<(u32, u32)>) -> io::Result<File> {
    let make = |path: &Path| File::options().write(true).create_new(true).mode(0o600).open(path);
    let Some((uid, gid)) = owner else { return make(path) };
    let new = path.with_extension("new");
    // Made by the job.
    let _ = std::fs::remove_file(&new);
    let file = make(&new)?;
    fchown(&file, Some(uid), Some(gid))?;
    std::fs::rename(&new, path)?;
    Ok(file)
}
