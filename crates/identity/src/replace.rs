//! Replaces a file as a whole. The space of the old content is kept for the next time, so that a
//! token can be revoked on a full disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// Bytes that the next content may have beyond the present one.
const MORE: u64 = 16 << 10;

/// Replaces the content of a file that only its owner can read, durably. A crash leaves the old or
/// the new content.
///
/// # Errors
/// It can't be written; the old content is unchanged.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let spare = spare_of(path);
    let file = open(&spare)?;
    file.write_all_at(bytes, 0)?;
    // Not cut before: another program could take the space in between.
    file.set_len(bytes.len() as u64)?;
    file.sync_all()?;
    match rustix::fs::renameat_with(CWD, &spare, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // There is no old content, or the file system can't exchange names.
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS) => std::fs::rename(&spare, path)?,
        Err(error) => return Err(error.into()),
    }
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    reserve(path);
    Ok(())
}

/// Allocates the space for the next content of a file, if there is room.
pub fn reserve(path: &Path) {
    let length = path.metadata().map_or(0, |it| it.len());
    let reserved = open(&spare_of(path));
    let reserved = reserved.and_then(|file| gpool_store::allocate(&file, length + MORE));
    if let Err(error) = reserved {
        tracing::warn!(path = %path.display(), %error, "no space is reserved for its next content");
    }
}

fn spare_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".spare");
    name.into()
}

fn open(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(false).mode(0o600).open(path)
}
