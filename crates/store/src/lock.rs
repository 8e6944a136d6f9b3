//! One server per state folder: checks the folder and locks `DIR/lock`. The kernel releases the
//! lock when its holder dies, for any reason. Opens nothing else.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::OpenError;
use crate::file;

/// How long to wait for the lock of an ended process. A child that it was starting inherits the
/// lock until the child executes its program, which takes a moment.
const HEIRS: Duration = Duration::from_secs(5);
/// The time between two attempts.
const LOOK: Duration = Duration::from_millis(2);

/// Locks a state folder while its store is open.
pub struct Lock {
    // The lock belongs to the open file, so the file is never closed and opened again.
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is just being started has the file open too.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "can't unlock the state folder; closing the file unlocks it");
        }
    }
}

impl Lock {
    /// Takes the lock; makes a missing folder if `create` is true.
    pub fn take(dir: &Path, create: bool) -> Result<Self, OpenError> {
        check_dir(dir, create)?;
        let path = dir.join("lock");
        let mut file = file::open_private(&path)
            .map_err(|error| OpenError::io("open the lock", &path, error))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(OpenError::io("lock", &path, error));
                }
            }
            let pid = read_pid(&mut file);
            if pid.is_none_or(is_alive) || began.elapsed() > HEIRS {
                return Err(OpenError::Held { path: dir.to_owned(), pid });
            }
            std::thread::sleep(LOOK);
        }
        // Only a hint for the next process; a full disk must not prevent a server from starting.
        if let Err(error) = write_pid(&mut file) {
            tracing::warn!(path = %path.display(), %error, "can't write the process ID");
        }
        Ok(Self { file })
    }
}

fn check_dir(dir: &Path, create: bool) -> Result<(), OpenError> {
    let metadata = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
            return file::create_private_dir(dir)
                .and_then(|()| file::sync_dir(file::parent(dir)))
                .map_err(|error| OpenError::io("create the folder", dir, error));
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
    // Root may open any user's folder, but would leave files there that the owner can't use.
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(OpenError::NotOwned { path: dir.to_owned(), owner: metadata.uid() });
    }
    Ok(())
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // A process that may not be signalled exists.
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
