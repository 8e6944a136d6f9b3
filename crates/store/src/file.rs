//! Files and folders that nobody else may read, made durable. Does not know what is in them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

/// Makes a folder, and those above it that are missing, for its owner alone.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes one folder for its owner alone; another thread may make it at the same moment.
pub fn create_one_private_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file for its owner alone; makes it if it is not there. Never follows a link.
pub fn open_private(path: &Path) -> io::Result<File> {
    private().read(true).create(true).truncate(false).open(path)
}

/// Makes a file for its owner alone; fails if there is one.
pub fn create_private(path: &Path) -> io::Result<File> {
    private().create_new(true).open(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Makes what was done to the names in a folder durable.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes `bytes` under `path` so that a crash leaves all of it there or nothing, and makes it
/// durable. `temporary` is on the same file system and taken over if something is left there.
pub fn write_durably(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    remove_if_there(temporary)?;
    let written = create_private(temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fail::fail_point!("store-file-synced");
        fs::rename(temporary, path)
    });
    if let Err(error) = written {
        // Best effort: the first error is the one to tell, and a left-over is taken over later.
        let _ = fs::remove_file(temporary);
        return Err(error);
    }
    sync_dir(parent(path))
}

/// Gives a file its final name, unless something has that name.
pub fn publish(temporary: &Path, path: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, temporary, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // File systems that can't promise it: look first, which leaves a gap of microseconds.
        Err(Errno::INVAL | Errno::NOSYS) => {
            if path.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(temporary, path)?;
        }
        Err(error) => return Err(error.into()),
    }
    sync_dir(parent(path))
}

/// Removes a file; one that is not there is fine.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// True if the name is taken, be it by a link to nowhere.
pub fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The folder that a path is in.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// True if the file system that holds `path` has no room, or next to none.
pub fn is_full(path: &Path) -> bool {
    // A few blocks may be left that a write of several can't use.
    rustix::fs::statvfs(path).is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) < 65_536)
}

/// True if nothing can be made where `path` is because the file system is read-only.
pub fn is_read_only(path: &Path) -> bool {
    let dir = if path.is_dir() { path } else { parent(path) };
    // Tried and not asked: a file system that failed does not always say so.
    let nameless = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, dir, nameless, rustix::fs::Mode::RUSR).err() == Some(Errno::ROFS)
}

/// True if an error means that there is no room.
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishing_overwrites_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (new, taken) = (dir.path().join("new"), dir.path().join("taken"));
        fs::write(&new, "new").unwrap();
        fs::write(&taken, "old").unwrap();
        let error = publish(&new, &taken).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&taken).unwrap(), b"old");
        publish(&new, &dir.path().join("free")).unwrap();
        assert!(!is_there(&new));
    }
}
