//! Disk space for changes that free space: the end of a job, a cancellation. It is allocated while
//! there is room, in the log of the database itself, so that no other program can take it: the
//! kernel gives blocks beyond the end of a file to this file alone.
//!
//! [`Room`] reports whether ordinary changes may be accepted. The caller decides which changes
//! are ordinary: the store accepts each commit that fits.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::create::Paths;
use crate::error::CommitError;
use crate::file::{allocate, is_no_space};
use crate::spare::log_reserve_in;

/// A new reserve is larger by this part, so that few commits have to extend it.
const SLACK_PART: u64 = 16;
/// Below this part of the file system, or [`FLOOR_MAX`], no ordinary change is accepted.
const FLOOR_PART: u64 = 32;
/// The most free space that is asked for.
const FLOOR_MAX: u64 = 64 << 20;

/// The free space of a state folder, for any thread.
#[derive(Debug, Clone)]
pub struct Room {
    dir: PathBuf,
    /// Why the reserve was not complete when the store last looked.
    fault: Arc<Mutex<Option<CommitError>>>,
    /// Whether there was too little at the last check.
    is_low: Arc<AtomicBool>,
}

impl Room {
    fn fault(&self) -> MutexGuard<'_, Option<CommitError>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that ordinary changes may be accepted. Takes a microsecond.
    ///
    /// # Errors
    /// There is less free space than the server keeps, or the reserve is in use.
    pub fn check(&self) -> Result<(), CommitError> {
        if let Some(fault) = &*self.fault() {
            return Err(fault.clone());
        }
        // A folder that can't be read is a fault of its own, which a commit reports.
        let Ok(found) = rustix::fs::statvfs(&self.dir) else { return Ok(()) };
        let part = found.f_blocks.saturating_mul(found.f_frsize) / FLOOR_PART;
        let floor = part.min(FLOOR_MAX);
        // More is needed for the end of a shortage, so that it does not end and begin all the time.
        let more = if self.is_low.load(Ordering::Relaxed) { floor / 4 } else { 0 };
        let is_low = found.f_bavail.saturating_mul(found.f_frsize) < floor + more;
        self.is_low.store(is_low, Ordering::Relaxed);
        if is_low { Err(CommitError::StorageFull) } else { Ok(()) }
    }
}

/// The reserve of an open store.
pub struct Reserve {
    room: Room,
    path: PathBuf,
    // Opened once it exists. It has no locks that closing it would release.
    log: Option<File>,
    bytes: u64,
    /// The length of the log, and where its allocated space ends.
    length: u64,
    end: u64,
}

impl Reserve {
    /// The reserve of a store; not allocated yet.
    pub fn of(paths: &Paths) -> Self {
        let dir = paths.dir.clone();
        let bytes = log_reserve_in(&dir);
        let room = Room { dir, fault: Arc::default(), is_low: Arc::default() };
        Self { room, path: paths.log.clone(), log: None, bytes, length: 0, end: 0 }
    }

    /// The free space, for other threads.
    pub fn room(&self) -> Room {
        self.room.clone()
    }

    /// Makes the reserve complete again, if there is room.
    pub fn fill(&mut self) {
        let fault = match self.extend() {
            Ok(()) => None,
            Err(error) if is_no_space(&error) => Some(CommitError::StorageFull),
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                Some(CommitError::ReadOnly)
            }
            // The store may work without a reserve.
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "there is no reserve of space");
                self.end = u64::MAX;
                None
            }
        };
        *self.room.fault() = fault;
    }

    /// Whether the last attempt made the reserve complete.
    pub fn is_whole(&self) -> bool {
        self.room.fault().is_none()
    }

    /// Frees the reserve, so that a store can be opened that needs a little more space. Only a cut
    /// of the file frees it, even a cut to the same length.
    pub fn release(paths: &Paths) -> io::Result<()> {
        let log = File::options().write(true).open(&paths.log)?;
        log.set_len(log.metadata()?.len())
    }

    /// The size of the whole reserve.
    pub fn size(&self) -> u64 {
        self.bytes
    }

    fn extend(&mut self) -> io::Result<()> {
        if self.log.is_none() {
            match File::options().write(true).open(&self.path) {
                // SQLite makes it with the first commit.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                opened => self.log = Some(opened?),
            }
        }
        let Some(log) = &self.log else { return Ok(()) };
        let length = log.metadata()?.len();
        if length < self.length {
            // SQLite has cut it, and freed the space beyond.
            self.end = length;
        }
        self.length = length;
        let least = length.saturating_add(self.bytes);
        if self.end < least {
            let with_slack = least.saturating_add(self.bytes / SLACK_PART);
            let mut extended = allocate(log, with_slack).map(|()| with_slack);
            if extended.is_err() {
                extended = allocate(log, least).map(|()| least);
            }
            // A part is better than nothing, and still a fault.
            let half = length.saturating_add(self.bytes / 2);
            if extended.is_err() && self.end <= length && allocate(log, half).is_ok() {
                self.end = half;
            }
            self.end = extended?;
        }
        Ok(())
    }
}
