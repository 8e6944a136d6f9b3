//! Small files named by their content: environments and scripts of jobs, which belong in no
//! journal and no log. Names are made with a secret key, so that nobody can tell from a name what
//! is in the file. Whoever opens the blobs for writing holds the store's lock.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::create::Paths;
use crate::error::BlobError;
use crate::file;

/// The name of a blob: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(String);

impl BlobId {
    fn of(key: &Key, bytes: &[u8]) -> Self {
        Self(blake3::keyed_hash(key, bytes).to_hex().to_string())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for BlobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(digit) {
            return Err(format!("`{text}` is not the name of a blob: 64 of 0-9 and a-f"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// What names are made with.
pub type Key = [u8; 32];

/// The blobs of a state folder.
pub struct Blobs {
    files: BlobFiles,
    // When each was last put by this process; `None` for those found at the start.
    known: Mutex<HashMap<BlobId, Option<Instant>>>,
    // Held while files are removed; a backup shares it, so that nothing vanishes under it.
    removal: File,
    n_temporary: AtomicU64,
}

impl Blobs {
    /// Opens the blobs in state folder `dir`; makes their folder and key if there are none.
    ///
    /// # Errors
    /// If the folder can't be used, or its key is lost.
    pub fn open(dir: &Path) -> Result<Self, BlobError> {
        Self::open_in(&Paths::of(dir).blobs, None)
    }

    /// Opens the blobs in a folder of that name, and makes it with the given key.
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
        let known = Mutex::new(found.into_iter().map(|id| (id, None)).collect());
        Ok(Self { files, known, removal, n_temporary: AtomicU64::new(0) })
    }

    /// Stores bytes; durable when it returns. Bytes that are stored already cost no I/O.
    ///
    /// # Errors
    /// If they can't be written; nothing is left then.
    pub fn put(&self, bytes: &[u8]) -> Result<BlobId, BlobError> {
        let id = BlobId::of(&self.files.key, bytes);
        if let Some(last_put) = self.known().get_mut(&id) {
            *last_put = Some(Instant::now());
            return Ok(id);
        }
        fail::fail_point!("store-blob-begin");
        let path = self.files.path(&id);
        let number = self.n_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self.files.dir.join("tmp").join(number.to_string());
        let io = |error| BlobError::io(&path, error);
        let folder = file::parent(&path);
        if !file::is_there(folder) {
            file::create_private_dir(folder)
                .and_then(|()| file::sync_dir(&self.files.dir))
                .map_err(io)?;
        }
        file::write_durably(&path, &temporary, bytes).map_err(io)?;
        fail::fail_point!("store-blob-done");
        self.known().insert(id.clone(), Some(Instant::now()));
        Ok(id)
    }

    /// Reads a blob and checks that it is what was stored.
    ///
    /// # Errors
    /// If it is missing or damaged.
    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, BlobError> {
        self.files.get(id)
    }

    /// Removes blobs that are not `in_use` and were not put within `min_age`, which is the time
    /// that a caller may take from putting a blob to naming it in a commit. Returns how many.
    /// Does nothing while a backup is being made.
    ///
    /// # Errors
    /// If a file can't be removed; those before it are gone.
    pub fn retain(&self, in_use: &HashSet<BlobId>, min_age: Duration) -> Result<usize, BlobError> {
        if self.removal.try_lock().is_err() {
            return Ok(0);
        }
        let removed = self.remove_unused(in_use, min_age);
        self.removal.unlock().map_err(|error| BlobError::io(&self.files.dir, error))?;
        removed
    }

    fn remove_unused(
        &self,
        in_use: &HashSet<BlobId>,
        min_age: Duration,
    ) -> Result<usize, BlobError> {
        // Held throughout: a put of the same bytes meanwhile must wait, or it would believe in a
        // file that is about to go.
        let mut known = self.known();
        let unused: Vec<BlobId> =
            known.keys().filter(|id| !in_use.contains(*id)).cloned().collect();
        let mut n_removed = 0;
        for id in unused {
            let path = self.files.path(&id);
            let old = match known.get(&id).copied().flatten() {
                Some(last_put) => last_put.elapsed() >= min_age,
                None => is_older(&path, min_age).map_err(|error| BlobError::io(&path, error))?,
            };
            if old {
                file::remove_if_there(&path).map_err(|error| BlobError::io(&path, error))?;
                known.remove(&id);
                n_removed += 1;
            }
        }
        Ok(n_removed)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<BlobId, Option<Instant>>> {
        // Each change of the map is whole, whatever a panic elsewhere.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_older(path: &Path, min_age: Duration) -> io::Result<bool> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        // A time in the future says nothing about its age, so it stays.
        metadata => Ok(SystemTime::now()
            .duration_since(metadata?.modified()?)
            .is_ok_and(|age| age >= min_age)),
    }
}

/// The files of blobs, for reading only.
pub struct BlobFiles {
    dir: PathBuf,
    /// What names are made with.
    pub key: Key,
}

impl BlobFiles {
    /// Opens a folder of blobs.
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

    /// Reads a blob and checks it.
    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, BlobError> {
        let path = self.path(id);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BlobError::Missing(id.clone()),
            _ => BlobError::io(&path, error),
        })?;
        check(&self.key, id, &bytes)?;
        Ok(bytes)
    }

    /// The names of all blobs.
    pub fn list(&self) -> Result<Vec<BlobId>, BlobError> {
        list(&self.dir)
    }

    /// Keeps blobs from being removed, until the file is dropped. Without a lock there is nobody
    /// who removes any.
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
        let (folder, name) = id.0.split_at(2);
        self.dir.join(folder).join(name)
    }
}

/// Says whether bytes are those that a name stands for.
pub fn check(key: &Key, id: &BlobId, bytes: &[u8]) -> Result<(), BlobError> {
    if BlobId::of(key, bytes) == *id { Ok(()) } else { Err(BlobError::Damaged(id.clone())) }
}

fn list(dir: &Path) -> Result<Vec<BlobId>, BlobError> {
    let mut found = Vec::new();
    for folder in names(dir)?.into_iter().filter(|name| name.len() == 2) {
        for name in names(&dir.join(&folder))? {
            // Anything else in there is not ours, and is left alone.
            found.extend(format!("{folder}{name}").parse::<BlobId>());
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
