//! One server per state folder: the folder is checked and a lock taken on `DIR/lock`, which the
//! kernel lets go of when its holder dies, however that happens. Opens nothing else.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::OpenError;
use crate::file;

/// How long a lock is waited for whose holder has ended. A process that it was just starting has
/// what it inherited until it becomes another program, which takes a moment.
const HEIRS: Duration = Duration::from_secs(5);
/// Between two tries.
const LOOK: Duration = Duration::from_millis(2);

/// Held for as long as the store is open.
pub struct Lock {
    // The lock belongs to the open file, so it is never closed and opened again.
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a process that is just being started has the file as well.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "the lock of the state folder is let go of by closing it");
        }
    }
}

impl Lock {
    /// Takes the lock; makes the folder if `create` says so and it is missing.
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
        // Only tells the next one who holds it; a full disk must not keep a server from starting.
        if let Err(error) = write_pid(&mut file) {
            tracing::warn!(path = %path.display(), %error, "can't write the process id");
        }
        Ok(Self { file })
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

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // One that may not be signalled is there.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_lives_is_named_and_an_heir_of_a_dead_one_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state");
        let first = Lock::take(&dir, true).unwrap();
        let own = std::process::id();
        let refused = Lock::take(&dir, true).err();
        assert!(matches!(refused, Some(OpenError::Held { pid: Some(pid), .. }) if pid == own));
        // As if its holder had been killed while it started another process.
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        std::fs::write(dir.join("lock"), format!("{}\n", ended.id())).unwrap();
        let heir = std::thread::spawn(move || drop(first));
        assert!(Lock::take(&dir, true).is_ok());
        heir.join().unwrap();
    }
}
