//! The results of jobs: for each task the manifest of its last attempt, as a small file.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::dirs;
use crate::object::ObjectId;

/// The task and attempt of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultKey {
    /// The ID of the job as text.
    pub job: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The rank of the task in its gang.
    pub rank: u32,
}

/// The results of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredResult {
    /// The user of the job, with the objects.
    pub user: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The name of its manifest.
    pub manifest: ObjectId,
}

/// The results below a folder.
pub struct Results {
    root: PathBuf,
    n_temporary: AtomicU64,
    /// Held by the one change that makes or removes folders.
    writing: Mutex<()>,
}

impl Results {
    /// Opens the results below a folder, which is made if it is missing.
    ///
    /// # Errors
    /// The folder can't be used.
    pub fn open(root: &Path) -> io::Result<Self> {
        dirs::private(root)?;
        Ok(Self {
            root: root.to_owned(),
            n_temporary: AtomicU64::new(0),
            writing: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // Nothing is changed in memory.
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self, job: &str) -> PathBuf {
        // The ID of a job has digits and a point.
        let is_plain = job.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        self.root.join(if is_plain && !job.starts_with('.') { job } else { "_" })
    }

    /// Stores the results of a task durably, unless those of a later attempt are there.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn put(&self, key: &ResultKey, user: u32, manifest: ObjectId) -> io::Result<()> {
        let folder = self.folder(&key.job);
        let path = folder.join(key.rank.to_string());
        let _writing = self.lock();
        if read(&path).is_some_and(|present| present.attempt > key.attempt) {
            return Ok(());
        }
        let made = !folder.is_dir();
        dirs::private(&folder)?;
        if made {
            dirs::sync(&self.root)?;
        }
        let number = self.n_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{}.{number}", std::process::id()));
        dirs::remove(&temporary)?;
        let stored = StoredResult { user, attempt: key.attempt, manifest };
        dirs::write(&temporary, &serde_json::to_vec(&stored)?)?;
        fail::fail_point!("files-result-written");
        fs::rename(&temporary, &path)?;
        dirs::sync(&folder)
    }

    /// The results of a job by rank.
    #[must_use]
    pub fn of(&self, job: &str) -> BTreeMap<u32, StoredResult> {
        let entries = fs::read_dir(self.folder(job)).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| {
            let rank = entry.file_name().to_str()?.parse().ok()?;
            Some((rank, read(&entry.path())?))
        });
        found.collect()
    }

    /// Removes results that are older than `keep`, and returns the manifests of the others.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sweep(&self, keep: Option<Duration>) -> io::Result<HashSet<(u32, ObjectId)>> {
        let mut found = HashSet::new();
        for job in fs::read_dir(&self.root)?.flatten() {
            let _writing = self.lock();
            for file in fs::read_dir(job.path()).into_iter().flatten().flatten() {
                let age = file.metadata().and_then(|it| it.modified()).ok();
                let age = age.and_then(|at| SystemTime::now().duration_since(at).ok());
                if keep.is_some_and(|keep| age.is_some_and(|age| age >= keep)) {
                    dirs::remove(&file.path())?;
                } else if let Some(stored) = read(&file.path()) {
                    found.insert((stored.user, stored.manifest));
                }
            }
            // Only an empty folder goes.
            drop(fs::remove_dir(job.path()));
        }
        Ok(found)
    }
}

fn read(path: &Path) -> Option<StoredResult> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
