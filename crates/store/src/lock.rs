//! One server per state folder: the folder is checked and a lock taken on `DIR/lock`, which the
//! kernel lets go of when its holder dies, however that happens. Opens nothing else.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::error::OpenError;
use crate::file;

/// Held for as long as the store is open.
pub struct Lock {
    // The lock belongs to the open file, so it is never closed and opened again.
    _file: File,
}

impl Lock {
    /// Takes the lock; makes the folder if `create` says so and it is missing.
    pub fn take(dir: &Path, create: bool) -> Result<Self, OpenError> {
        check_dir(dir, create)?;
        let path = dir.join("lock");
        let mut file = file::open_private(&path)
            .map_err(|error| OpenError::io("open the lock", &path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Held { path: dir.to_owned(), pid: read_pid(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(OpenError::io("lock", &path, error)),
        }
        // Only tells the next one who holds it; a full disk must not keep a server from starting.
        if let Err(error) = write_pid(&mut file) {
            tracing::warn!(path = %path.display(), %error, "can't write the process id");
        }
        Ok(Self { _file: file })
    }
}

fn check_dir(dir: &Path, create: bool) -> Result<(), OpenError> {
    let metadata = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
            return file::create_private_dir(dir)
                .and_then(|()| file::sync_dir(file::parent(dir)))
                .map_err(|error| OpenError::io("make the folder", dir, error));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::NoStore { path: dir.to_owned() });
        }
        other => other.map_err(|error| OpenError::io("look at", dir, error))?,
    };
    if !metadata.is_dir() {
        return Err(OpenError::NotADirectory { path: dir.to_owned() });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(OpenError::Exposed { path: dir.to_owned(), mode });
    }
    // Root may open anybody's folder, but would leave files there that its owner can't use.
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(OpenError::NotOwned { path: dir.to_owned(), owner: metadata.uid() });
    }
    Ok(())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
