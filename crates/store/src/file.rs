//! Private, durable files and folders. Does not know their content.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, FallocateFlags, IFlags, OFlags, RenameFlags};
use rustix::io::Errno;

/// Makes a folder and its missing parents, for their owner alone.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes one folder for its owner alone; another thread may make it at the same time.
pub fn create_one_private_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file for its owner alone; makes a missing file. Never follows a link.
pub fn open_private(path: &Path) -> io::Result<File> {
    private().read(true).create(true).truncate(false).open(path)
}

/// Makes a file for its owner alone; fails if it exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    private().create_new(true).open(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Makes changes of the names in a folder durable.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes `bytes` to `path` durably; a crash leaves all of them there or none. `temporary` is on
/// the same file system; a file left there is replaced.
pub fn write_durably(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    remove_if_there(temporary)?;
    let written = create_private(temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fail::fail_point!("store-file-synced");
        fs::rename(temporary, path)
    });
    if let Err(error) = written {
        // Best effort: the first error is the one to report, and a left-over file is replaced
        // later.
        let _ = fs::remove_file(temporary);
        return Err(error);
    }
    sync_dir(parent(path))
}

/// Gives a file its final name, unless the name is taken.
pub fn publish(temporary: &Path, path: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, temporary, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // A file system without this guarantee: checks first, which leaves a gap of microseconds.
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

/// Removes a file if it exists.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// True if the name is taken, even by a dangling link.
pub fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns the parent folder of a path.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns random bytes for secrets.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// True if the file system of `path` has no space, or almost none, or the user's quota there is
/// used up.
pub fn is_full(path: &Path) -> bool {
    // A few blocks may be left, too few for a larger write.
    const SOME: u64 = 65_536;
    let free = rustix::fs::statvfs(path).map(|room| room.f_bavail.saturating_mul(room.f_frsize));
    // By trial, because the free space does not show quotas.
    let tried = || nameless(path).and_then(|file| allocate(&File::from(file), SOME));
    free.is_ok_and(|free| free < SOME) || tried().is_err_and(|error| is_no_space(&error))
}

/// True if the file system of `path` is read-only.
pub fn is_read_only(path: &Path) -> bool {
    // By trial, because a failed file system does not always report that.
    nameless(path).is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

/// Makes a file without a name in the folder of `path`.
pub fn nameless(path: &Path) -> io::Result<OwnedFd> {
    let dir = if path.is_dir() { path } else { parent(path) };
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, dir, flags, rustix::fs::Mode::RUSR)?)
}

/// Allocates space for a file up to this length and does not change the file. A file system that
/// can't do it ignores the call.
///
/// # Errors
/// There is not enough space, or the user's quota is used up.
pub fn allocate(file: &File, length: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Switches off copy-on-write for new files in this folder, on btrfs. With it, each write needs new
/// space: on a full disk the reserve would be useless, and a write to the mapped index of the
/// database's log would end the server (SIGBUS).
/// Source: btrfs(5), "NODATACOW".
pub fn disable_copy_on_write(dir: &Path) {
    let Ok(folder) = File::open(dir) else { return };
    let Ok(flags) = rustix::fs::ioctl_getflags(&folder) else { return };
    // Other file systems refuse or ignore the flag.
    let _ = rustix::fs::ioctl_setflags(&folder, flags | IFlags::NOCOW);
}

/// True if an error means that no space is left.
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
