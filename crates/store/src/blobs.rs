//! Small files named by owner and content: environments and scripts of jobs, which are too large
//! for the journal. Names are made with a secret key, so that a name reveals nothing about the
//! content. Each user has a folder. Jobs of one user share files and jobs of two users never do, so
//! that each user's limit counts their own files, and no user can find out another's content.
//! Opening the blobs for writing requires the store's lock.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};

use crate::blob_id::{BlobId, Key};
use crate::create::Paths;
use crate::error::BlobError;
use crate::file;

/// How long a file stays that no commit ever named, unless it is removed before.
const ORPHAN_AGE: Duration = Duration::from_hours(1);
/// A file takes whole disk blocks of this size, and counts as such.
const BLOCK: u64 = 4096;

/// The blobs of a state folder.
pub struct Blobs {
    files: BlobFiles,
    index: Mutex<BlobIndex>,
    // Locked while files are removed; a backup shares the lock, so that no file vanishes meanwhile.
    removal: File,
    n_temporary: AtomicU64,
}

/// The existing files, in memory.
#[derive(Default)]
struct BlobIndex {
    entries: HashMap<BlobId, BlobEntry>,
    /// Each user's bytes on disk, including files that are being written.
    bytes_by_owner: HashMap<u32, u64>,
}

struct BlobEntry {
    disk_bytes: u64,
    /// Requests that are about to name the blob in a commit.
    n_pins: u32,
    /// Whether a commit named the blob.
    is_used: bool,
    /// Whether a commit may have named the blob: a request got no answer. Then only a sweep, which
    /// knows the files in use, removes the file.
    may_be_used: bool,
}

/// The result of the command that blobs were pinned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinEnd {
    /// A commit names them.
    Used,
    /// No commit will name them.
    Refused,
    /// Unknown whether a commit names them.
    Unknown,
}

/// The result of a sweep over all blobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    pub n_removed: usize,
    /// Blobs that are in use but missing.
    pub missing: HashSet<BlobId>,
}

impl BlobIndex {
    fn add(&mut self, id: &BlobId, disk_bytes: u64, n_pins: u32, is_used: bool) {
        *self.bytes_by_owner.entry_of(id) += disk_bytes;
        self.entries
            .insert(id.clone(), BlobEntry { disk_bytes, n_pins, is_used, may_be_used: false });
    }

    fn remove(&mut self, id: &BlobId) {
        if let Some(entry) = self.entries.remove(id) {
            self.give_back(id, entry.disk_bytes);
        }
    }

    fn give_back(&mut self, id: &BlobId, disk_bytes: u64) {
        let left = self.bytes_by_owner.entry_of(id);
        *left = left.saturating_sub(disk_bytes);
    }

    fn pin(&mut self, id: &BlobId) -> bool {
        let entry = self.entries.get_mut(id);
        let is_known = entry.is_some();
        entry.into_iter().for_each(|entry| entry.n_pins += 1);
        is_known
    }
}

trait ByOwner {
    fn entry_of(&mut self, id: &BlobId) -> &mut u64;
}

impl ByOwner for HashMap<u32, u64> {
    fn entry_of(&mut self, id: &BlobId) -> &mut u64 {
        self.entry(id.owner()).or_default()
    }
}

impl Blobs {
    /// Opens the blobs in state folder `dir`; makes a missing folder and key.
    ///
    /// # Errors
    /// If the folder can't be used, or its key is lost.
    pub fn open(dir: &Path) -> Result<Self, BlobError> {
        Self::open_in(&Paths::of(dir).blobs, None)
    }

    /// Opens the blobs in this folder, with a given key if the folder is new.
    pub(crate) fn open_in(dir: &Path, key: Option<Key>) -> Result<Self, BlobError> {
        let io = |error| BlobError::io(dir, error);
        file::create_private_dir(&dir.join("tmp")).map_err(io)?;
        let found = list(dir)?;
        let key_path = dir.join("key");
        if !file::is_there(&key_path) {
            if !found.is_empty() {
                return Err(BlobError::Key { path: key_path, what: "missing" });
            }
            let key = match key {
                Some(key) => key,
                None => file::random().map_err(io)?,
            };
            file::write_durably(&key_path, &dir.join("tmp/key"), &key)
                .and_then(|()| file::sync_dir(file::parent(dir)))
                .map_err(io)?;
        }
        let files = BlobFiles::open(dir)?;
        for entry in fs::read_dir(dir.join("tmp")).map_err(io)? {
            file::remove_if_there(&entry.map_err(io)?.path()).map_err(io)?;
        }
        let removal = file::open_private(&dir.join("lock")).map_err(io)?;
        let mut known = BlobIndex::default();
        for id in found {
            let about = files.path(&id).symlink_metadata();
            known.add(&id, about.map_or(0, |about| on_disk(about.len())), 0, true);
        }
        let index = Mutex::new(known);
        Ok(Self { files, index, removal, n_temporary: AtomicU64::new(0) })
    }

    /// Returns the name of bytes that a user stores.
    #[must_use]
    pub fn name(&self, owner: u32, bytes: &[u8]) -> BlobId {
        BlobId::of(&self.files.key, owner, bytes)
    }

    /// Stores the bytes of a name durably and pins the blob until [`Self::unpin`]. Bytes that are
    /// already stored are not written again. Returns how much more of the disk is used.
    ///
    /// # Errors
    /// If the bytes can't be written, or the user would have more than `most` bytes; then nothing
    /// is stored.
    pub fn store(&self, id: &BlobId, bytes: &[u8], most: u64) -> Result<u64, BlobError> {
        let path = self.files.path(id);
        let mut known = self.index();
        let is_known = known.pin(id);
        if !is_known {
            let taken = on_disk(bytes.len() as u64);
            let n_kept = *known.bytes_by_owner.entry_of(id);
            if n_kept.saturating_add(taken) > most {
                return Err(BlobError::TooMuch { n_kept, n_more: taken, most });
            }
            // Pinned before it is there: another request may store the same bytes meanwhile, be
            // refused, and remove them.
            known.add(id, taken, 1, false);
        }
        drop(known);
        let stored = || -> Result<(), BlobError> {
            if is_known && touch(&path).map_err(|error| BlobError::io(&path, error))? {
                return Ok(());
            }
            fail::fail_point!("store-blob-begin");
            let written = self.write(id, &path, bytes);
            fail::fail_point!("store-blob-done");
            written
        };
        let stored = stored();
        if stored.is_err() {
            self.unpin([id], if is_known { PinEnd::Unknown } else { PinEnd::Refused });
        }
        stored.map(|()| if is_known { 0 } else { on_disk(bytes.len() as u64) })
    }

    /// Whether the bytes of a name are stored, as far as is known without a look at the disk. It
    /// then takes microseconds to store them again.
    #[must_use]
    pub fn is_known(&self, id: &BlobId) -> bool {
        self.index().entries.contains_key(id)
    }

    fn write(&self, id: &BlobId, path: &Path, bytes: &[u8]) -> Result<(), BlobError> {
        debug_assert!(check(&self.files.key, id, bytes).is_ok(), "the name is that of the bytes");
        let number = self.n_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self.files.dir.join("tmp").join(number.to_string());
        let io = |error| BlobError::io(path, error);
        // The folders may have been removed while the server runs. The state folder itself is not
        // made again.
        let (dir, key) = (&self.files.dir, self.files.dir.join("key"));
        for folder in [dir, file::parent(&temporary), file::parent(path)] {
            if !file::is_there(folder) {
                file::create_one_private_dir(folder)
                    .and_then(|()| file::sync_dir(file::parent(folder)))
                    .map_err(io)?;
            }
        }
        if !file::is_there(&key) {
            file::write_durably(&key, &dir.join("tmp/key"), &self.files.key).map_err(io)?;
        }
        file::write_durably(path, &temporary, bytes).map_err(io)
    }

    /// Writes a blob of a backup under its own name.
    pub(crate) fn restore(&self, id: &BlobId, bytes: &[u8]) -> Result<(), BlobError> {
        check(&self.files.key, id, bytes)?;
        self.write(id, &self.files.path(id), bytes)
    }

    /// Pins stored blobs until [`Self::unpin`].
    ///
    /// # Errors
    /// If one is missing; then none is pinned.
    pub fn pin<'a>(&self, ids: impl IntoIterator<Item = &'a BlobId>) -> Result<(), BlobError> {
        let mut pinned = Vec::new();
        for id in ids {
            let path = self.files.path(id);
            let is_known = self.index().pin(id);
            pinned.extend(is_known.then_some(id));
            let is_there = match is_known {
                true => touch(&path).map_err(|error| BlobError::io(&path, error)),
                false => Ok(false),
            };
            if let Some(error) = match is_there {
                Ok(true) => None,
                Ok(false) => Some(BlobError::Missing(id.clone())),
                Err(error) => Some(error),
            } {
                self.unpin(pinned, PinEnd::Unknown);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Releases pinned blobs. Removes blobs that no commit can have named.
    pub fn unpin<'a>(&self, ids: impl IntoIterator<Item = &'a BlobId>, end: PinEnd) {
        let mut known = self.index();
        for id in ids {
            let Some(entry) = known.entries.get_mut(id) else { continue };
            entry.n_pins = entry.n_pins.saturating_sub(1);
            entry.is_used |= end == PinEnd::Used;
            entry.may_be_used |= end != PinEnd::Refused;
            if entry.n_pins > 0 || entry.may_be_used || entry.is_used {
                continue;
            }
            // A file that can't be removed is an orphan; a later sweep finds it.
            if file::remove_if_there(&self.files.path(id)).is_ok() {
                known.remove(id);
            }
        }
    }

    /// Reads a blob and checks that it has the stored bytes.
    ///
    /// # Errors
    /// If it is missing or damaged.
    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, BlobError> {
        self.files.get(id)
    }

    /// Whether the file of a blob exists.
    #[must_use]
    pub fn has(&self, id: &BlobId) -> bool {
        file::is_there(&self.files.path(id))
    }

    /// The path of a blob's file.
    #[must_use]
    pub fn path(&self, id: &BlobId) -> PathBuf {
        self.files.path(id)
    }

    /// Marks the files of blobs `in_use` as used now. Removes other files with a last use `keep`
    /// ago, and files that no commit named after an hour. Removes nothing during a backup.
    ///
    /// # Errors
    /// If a file can't be examined or removed; earlier removals stay.
    pub fn sweep(&self, in_use: &HashSet<BlobId>, keep: Duration) -> Result<Sweep, BlobError> {
        let mut found = Sweep::default();
        for id in in_use {
            let path = self.files.path(id);
            if !touch(&path).map_err(|error| BlobError::io(&path, error))? {
                found.missing.insert(id.clone());
            }
        }
        if self.removal.try_lock().is_err() {
            return Ok(found);
        }
        let removed = self.remove_unused(in_use, keep);
        self.removal.unlock().map_err(|error| BlobError::io(&self.files.dir, error))?;
        found.n_removed = removed?;
        Ok(found)
    }

    fn remove_unused(&self, in_use: &HashSet<BlobId>, keep: Duration) -> Result<usize, BlobError> {
        let known = self.index();
        let unused = known.entries.keys().filter(|id| !in_use.contains(*id));
        let unused: Vec<BlobId> = unused.cloned().collect();
        drop(known);
        let mut n_removed = 0;
        for id in unused {
            let path = self.files.path(&id);
            // Locked during the removal: a request for the same bytes must wait, or it would rely
            // on a file that is about to vanish.
            let mut known = self.index();
            let Some(entry) = known.entries.get(&id).filter(|entry| entry.n_pins == 0) else {
                continue;
            };
            let age = if entry.is_used { keep } else { ORPHAN_AGE };
            if is_older(&path, age).map_err(|error| BlobError::io(&path, error))? {
                file::remove_if_there(&path).map_err(|error| BlobError::io(&path, error))?;
                known.remove(&id);
                n_removed += 1;
            }
        }
        Ok(n_removed)
    }

    fn index(&self) -> MutexGuard<'_, BlobIndex> {
        // A panic elsewhere leaves the map complete, since each change is complete in itself.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bytes on disk of a file of this length.
fn on_disk(length: u64) -> u64 {
    length.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Marks a file as used now; `false` if it does not exist.
fn touch(path: &Path) -> io::Result<bool> {
    let this_moment = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: this_moment, last_modification: this_moment };
    match rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(false),
        // The file exists. A disk that accepts no change must not make it count as missing.
        Err(rustix::io::Errno::ROFS | rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

fn is_older(path: &Path, min_age: Duration) -> io::Result<bool> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        // A time in the future does not show its age, so the file stays.
        metadata => Ok(SystemTime::now()
            .duration_since(metadata?.modified()?)
            .is_ok_and(|age| age >= min_age)),
    }
}

/// The files of blobs, for reading only.
pub struct BlobFiles {
    dir: PathBuf,
    pub key: Key,
}

impl BlobFiles {
    pub fn open(dir: &Path) -> Result<Self, BlobError> {
        let path = dir.join("key");
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BlobError::Key { path, what: "missing" });
            }
            other => other.map_err(|error| BlobError::io(&path, error))?,
        };
        match bytes.try_into() {
            Ok(key) => Ok(Self { dir: dir.to_owned(), key }),
            Err(_) => Err(BlobError::Key { path, what: "damaged" }),
        }
    }

    /// Reads a blob and checks its bytes.
    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, BlobError> {
        let path = self.path(id);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BlobError::Missing(id.clone()),
            _ => BlobError::io(&path, error),
        })?;
        check(&self.key, id, &bytes)?;
        Ok(bytes)
    }

    pub fn list(&self) -> Result<Vec<BlobId>, BlobError> {
        list(&self.dir)
    }

    /// Prevents the removal of blobs until the file is dropped. Without a lock file, no server
    /// removes any.
    pub fn keep(&self) -> Result<Option<File>, BlobError> {
        let path = self.dir.join("lock");
        let io = |error| BlobError::io(&path, error);
        let lock = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(io)?,
        };
        lock.lock_shared().map_err(io)?;
        Ok(Some(lock))
    }

    fn path(&self, id: &BlobId) -> PathBuf {
        let id = id.as_str();
        let (folder, name) = id.split_once('-').unwrap_or_else(|| id.split_at(2));
        self.dir.join(folder).join(name)
    }
}

fn list(dir: &Path) -> Result<Vec<BlobId>, BlobError> {
    let mut found = Vec::new();
    for folder in names(dir)? {
        let between = match folder.strip_prefix('u') {
            Some(uid) if uid.parse::<u32>().is_ok() => "-",
            _ if folder.len() == 2 => "",
            _ => continue,
        };
        for name in names(&dir.join(&folder))? {
            // Other files in the folder do not belong to the store, and stay.
            found.extend(format!("{folder}{between}{name}").parse::<BlobId>());
        }
    }
    found.sort();
    Ok(found)
}

fn names(dir: &Path) -> Result<Vec<String>, BlobError> {
    let io = |error| BlobError::io(dir, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        names.extend(entry.map_err(io)?.file_name().into_string());
    }
    Ok(names)
}

/// Checks that bytes have this name.
pub fn check(key: &Key, id: &BlobId, bytes: &[u8]) -> Result<(), BlobError> {
    let is_it = BlobId::of(key, id.owner(), bytes) == *id;
    if is_it { Ok(()) } else { Err(BlobError::Damaged(id.clone())) }
}
