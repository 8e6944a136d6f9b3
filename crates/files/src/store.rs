//! Objects on a disk, in a folder for each user. A user that sends an object stores it in that
//! folder, and nothing else leads there: so equal files of two users are stored twice, and no user
//! finds out or gets the files of another.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use thiserror::Error;

use crate::dirs;
use crate::manifest::{Manifest, ManifestError};
use crate::object::ObjectId;

/// A file takes whole disk blocks of this size.
const BLOCK: u64 = 4096;
/// The manifests with their objects in memory.
const MEMBERS_MAX: usize = 8;

/// An object with its user.
type UserObject = (u32, ObjectId);

/// An object can't be stored or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no such object of this user.
    #[error("object {0} is missing")]
    Missing(ObjectId),
    /// The bytes are not those of the name.
    #[error("object {0} is damaged")]
    Damaged(ObjectId),
    /// The user would have too many bytes.
    #[error("{n_stored} bytes are stored, and {most} are allowed; {n_more} more came")]
    TooMuch {
        /// The stored bytes of the user.
        n_stored: u64,
        /// The bytes of the new objects.
        n_more: u64,
        /// The limit.
        most: u64,
    },
    /// It is no manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The disk refuses.
    #[error("can't use {path}: {error}", path = path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}

impl StoreError {
    /// Whether the disk, or the user's part of it, is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { error, .. } if is_full(error))
    }
}

/// Whether an error of the system means that the disk is full.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The objects below one folder.
pub struct ObjectStore {
    root: PathBuf,
    n_temporary: AtomicU64,
    index: Mutex<Index>,
    members: Mutex<VecDeque<(UserObject, Arc<HashSet<ObjectId>>)>>,
}

/// The objects that exist, in memory.
#[derive(Default)]
struct Index {
    objects: HashMap<UserObject, Stored>,
    bytes_by_user: HashMap<u32, u64>,
    n_bytes: u64,
}

struct Stored {
    disk_bytes: u64,
    used_at: SystemTime,
}

impl Index {
    fn add(&mut self, user: u32, id: ObjectId, disk_bytes: u64, used_at: SystemTime) {
        let stored = Stored { disk_bytes, used_at };
        if self.objects.insert((user, id), stored).is_none() {
            *self.bytes_by_user.entry(user).or_default() += disk_bytes;
            self.n_bytes += disk_bytes;
        }
    }

    fn remove(&mut self, user: u32, id: ObjectId) {
        if let Some(stored) = self.objects.remove(&(user, id)) {
            let left = self.bytes_by_user.entry(user).or_default();
            *left = left.saturating_sub(stored.disk_bytes);
            self.n_bytes = self.n_bytes.saturating_sub(stored.disk_bytes);
        }
    }
}

impl ObjectStore {
    /// Opens the objects below a folder, which is made if it is missing. The caller is the only
    /// user of the folder.
    ///
    /// # Errors
    /// The folder can't be used.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let failed = |error| StoreError::Io { path: root.to_owned(), error };
        let temporary = root.join("tmp");
        dirs::private(&temporary).map_err(failed)?;
        // A killed program left them.
        for entry in fs::read_dir(&temporary).map_err(failed)?.flatten() {
            drop(fs::remove_file(entry.path()));
        }
        let store = Self {
            root: root.to_owned(),
            n_temporary: AtomicU64::new(0),
            index: Mutex::new(read_index(root).map_err(failed)?),
            members: Mutex::default(),
        };
        Ok(store)
    }

    /// Returns the objects of a user that are not stored. The others count as used now.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn missing(
        &self,
        user: u32,
        ids: impl IntoIterator<Item = ObjectId>,
    ) -> Result<Vec<ObjectId>, StoreError> {
        let mut missing = Vec::new();
        for id in ids {
            if !self.touch(user, id)? {
                missing.push(id);
            }
        }
        Ok(missing)
    }

    /// Marks an object as used now; returns whether it is stored.
    fn touch(&self, user: u32, id: ObjectId) -> Result<bool, StoreError> {
        // Locked meanwhile: a removal must not come between the answer and the new time.
        let mut index = self.lock();
        let path = self.path(user, &id);
        let Some(stored) = index.objects.get_mut(&(user, id)) else { return Ok(false) };
        stored.used_at = SystemTime::now();
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        match utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
                index.remove(user, id);
                Ok(false)
            }
            // The object is there; a disk that takes no change must not make it count as missing.
            Err(rustix::io::Errno::ROFS | rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
                Ok(true)
            }
            Err(error) => Err(StoreError::Io { path, error: error.into() }),
        }
    }

    /// Stores objects of a user durably, and returns their names: after a crash each is there whole
    /// or not at all.
    ///
    /// # Errors
    /// The disk refuses, or the user would have more than `most` bytes; earlier objects may be
    /// stored.
    pub fn put(
        &self,
        user: u32,
        objects: &[&[u8]],
        most: u64,
    ) -> Result<Vec<ObjectId>, StoreError> {
        let ids: Vec<ObjectId> = objects.iter().map(|bytes| ObjectId::of(bytes)).collect();
        let missing: HashSet<ObjectId> =
            self.missing(user, ids.iter().copied())?.into_iter().collect();
        let new: Vec<_> = ids.iter().zip(objects).filter(|(id, _)| missing.contains(id)).collect();
        let n_more = new.iter().map(|(_, bytes)| on_disk(bytes.len() as u64)).sum();
        let n_stored = self.lock().bytes_by_user.get(&user).copied().unwrap_or_default();
        if n_more > 0 && n_stored.saturating_add(n_more) > most {
            return Err(StoreError::TooMuch { n_stored, n_more, most });
        }
        let mut folders = BTreeSet::new();
        for (id, bytes) in new {
            let path = self.path(user, id);
            let written = self.write(&path, bytes, &mut folders);
            written.map_err(|error| StoreError::Io { path, error })?;
        }
        for folder in folders {
            dirs::sync(&folder).map_err(|error| StoreError::Io { path: folder, error })?;
        }
        fail::fail_point!("files-object-stored");
        let mut index = self.lock();
        for (id, bytes) in ids.iter().zip(objects) {
            index.add(user, *id, on_disk(bytes.len() as u64), SystemTime::now());
        }
        Ok(ids)
    }

    fn write(&self, path: &Path, bytes: &[u8], folders: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        let number = self.n_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self.root.join("tmp").join(number.to_string());
        let folder = path.parent().unwrap_or(&self.root);
        if !folder.is_dir() {
            dirs::private(folder)?;
            // Its own name, and that of the user's folder.
            folders.extend(folder.ancestors().skip(1).take(3).map(Path::to_owned));
        }
        let written = dirs::write(&temporary, bytes).and_then(|()| {
            fail::fail_point!("files-object-written");
            fs::rename(&temporary, path)
        });
        if written.is_err() {
            drop(fs::remove_file(&temporary));
        }
        folders.insert(folder.to_owned());
        written
    }

    /// Reads an object of a user, and checks its bytes.
    ///
    /// # Errors
    /// It is missing or damaged, or the disk refuses.
    pub fn get(&self, user: u32, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        let path = self.path(user, id);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Missing(*id));
            }
            bytes => bytes.map_err(|error| StoreError::Io { path: path.clone(), error })?,
        };
        if ObjectId::of(&bytes) == *id {
            return Ok(bytes);
        }
        // It is sent or fetched again.
        self.remove(user, *id)?;
        Err(StoreError::Damaged(*id))
    }

    /// Reads a manifest of a user.
    ///
    /// # Errors
    /// As for [`get`](Self::get), or the object is no manifest.
    pub fn manifest(&self, user: u32, id: &ObjectId) -> Result<Manifest, StoreError> {
        Ok(Manifest::read(&self.get(user, id)?)?)
    }

    /// The objects of a manifest, with the manifest itself.
    ///
    /// # Errors
    /// As for [`manifest`](Self::manifest).
    pub fn members(
        &self,
        user: u32,
        manifest: &ObjectId,
    ) -> Result<Arc<HashSet<ObjectId>>, StoreError> {
        let key = (user, *manifest);
        let recent = || self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = recent().iter().find(|(it, _)| *it == key) {
            return Ok(Arc::clone(found));
        }
        let read = self.manifest(user, manifest)?;
        let found: HashSet<ObjectId> = read.parts().chain([manifest]).copied().collect();
        let found = Arc::new(found);
        let mut recent = recent();
        recent.push_back((key, Arc::clone(&found)));
        if recent.len() > MEMBERS_MAX {
            recent.pop_front();
        }
        Ok(found)
    }

    /// Removes objects that are not in use and were last used longer than `keep` ago. Returns how
    /// many.
    ///
    /// # Errors
    /// The disk refuses; earlier removals stay.
    pub fn sweep(
        &self,
        in_use: &HashSet<(u32, ObjectId)>,
        keep: Duration,
    ) -> Result<usize, StoreError> {
        let now = SystemTime::now();
        let is_old =
            |stored: &Stored| now.duration_since(stored.used_at).is_ok_and(|age| age >= keep);
        let old = |it: &(&(u32, ObjectId), &Stored)| !in_use.contains(it.0) && is_old(it.1);
        let old: Vec<(u32, ObjectId)> =
            self.lock().objects.iter().filter(old).map(|(key, _)| *key).collect();
        let mut n_removed = 0;
        for (user, id) in old {
            // Locked during the removal: a request for the object waits, or it would rely on a
            // file that is about to vanish.
            let mut index = self.lock();
            if index.objects.get(&(user, id)).is_some_and(is_old) {
                self.remove_locked(&mut index, user, id)?;
                n_removed += 1;
            }
        }
        Ok(n_removed)
    }

    /// Removes the objects that were not used for the longest time, until the others have at most
    /// `most` bytes.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn trim(&self, most: u64) -> Result<(), StoreError> {
        let mut index = self.lock();
        if index.n_bytes <= most {
            return Ok(());
        }
        let mut all: Vec<_> =
            index.objects.iter().map(|((user, id), it)| (it.used_at, *user, *id)).collect();
        all.sort_unstable();
        for (_, user, id) in all {
            if index.n_bytes <= most {
                break;
            }
            self.remove_locked(&mut index, user, id)?;
        }
        Ok(())
    }

    /// The bytes on the disk that a user's objects take.
    #[must_use]
    pub fn n_bytes(&self, user: u32) -> u64 {
        self.lock().bytes_by_user.get(&user).copied().unwrap_or_default()
    }

    fn remove(&self, user: u32, id: ObjectId) -> Result<(), StoreError> {
        self.remove_locked(&mut self.lock(), user, id)
    }

    fn remove_locked(&self, index: &mut Index, user: u32, id: ObjectId) -> Result<(), StoreError> {
        let path = self.path(user, &id);
        dirs::remove(&path).map_err(|error| StoreError::Io { path, error })?;
        index.remove(user, id);
        Ok(())
    }

    /// The path of an object, for messages.
    #[must_use]
    pub fn path(&self, user: u32, id: &ObjectId) -> PathBuf {
        let name = id.to_string();
        let (folder, rest) = name.split_at(2);
        self.root.join(format!("u{user}")).join(folder).join(rest)
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        // Each change of the index is complete in itself.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn on_disk(length: u64) -> u64 {
    length.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Finds the objects below a folder; other files stay.
fn read_index(root: &Path) -> io::Result<Index> {
    let mut index = Index::default();
    for user_folder in fs::read_dir(root)?.flatten() {
        let name = user_folder.file_name();
        let user = name.to_str().and_then(|name| name.strip_prefix('u')?.parse::<u32>().ok());
        let Some(user) = user else { continue };
        for folder in fs::read_dir(user_folder.path())?.flatten() {
            let first = folder.file_name();
            for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let name = [first.to_string_lossy(), file.file_name().to_string_lossy()].concat();
                let (Ok(id), Ok(about)) = (name.parse::<ObjectId>(), file.metadata()) else {
                    continue;
                };
                let used_at = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                index.add(user, id, on_disk(about.size()), used_at);
            }
        }
    }
    Ok(index)
}

/// The free bytes of the disk of a folder.
#[must_use]
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = File::open(folder).and_then(|open| Ok(rustix::fs::fstatvfs(open)?)).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
