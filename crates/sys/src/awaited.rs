//! Files in a folder that another program is about to make: a program that submits a job learns the
//! job's ID from the reply, and only then can make a folder with that name.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for the folder.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const LOOK: Duration = Duration::from_millis(10);

/// Opens a file, and repeats that for some seconds while it is missing.
///
/// # Errors
/// The last error of `open`.
pub fn open<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < give_up => {
                std::thread::sleep(LOOK);
            }
            other => return other,
        }
    }
}

/// Creates a file as [`open`] does, and makes its folder if that stays missing. Not before: a
/// program that makes the folder itself may take an existing one for a mistake.
pub fn create<T>(path: &Path, mut create: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match open(&mut create) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(path.parent().unwrap_or(path))?;
            create()
        }
        other => other,
    }
}
