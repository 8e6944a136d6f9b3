//! The working folders and results of jobs: objects in the state folder, a folder for each user.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use gpool_files::{
    Manifest, ObjectId, ObjectStore, ResultKey, Results, StoreError, StoredResult, bundle,
};
use gpool_link::ResultPart;
use gpool_model::job::JobSpec;
use gpool_model::{Bytes, JobId, Refusal, TaskId};
use gpool_wire::{Problem, catalogue};

use crate::fault::internal;
use crate::limits::Limits;

/// The folders of objects and results in the state folder.
const OBJECTS: &str = "objects";
const RESULTS: &str = "results";
/// The first letter of a name that an agent asks for: an object, with its user.
const OBJECT_PREFIX: char = 'o';

/// The objects and results of a server.
pub struct FileStore {
    pub objects: ObjectStore,
    pub results: Results,
    /// Most bytes of one folder, and of all objects of a user.
    most: (Bytes, Bytes),
}

impl FileStore {
    /// Opens the folders in the state folder.
    ///
    /// # Errors
    /// A folder can't be used.
    pub fn open(state_dir: &Path, limits: &Limits) -> anyhow::Result<Self> {
        let objects = ObjectStore::open(&state_dir.join(OBJECTS))?;
        let results = state_dir.join(RESULTS);
        let results =
            Results::open(&results).with_context(|| format!("can't use {}", results.display()))?;
        Ok(Self { objects, results, most: (limits.upload, limits.files) })
    }

    /// Stores the objects of a bundle for a user. Waits for the disk.
    ///
    /// # Errors
    /// The bundle is cut off, the user has too many bytes, or the disk is full.
    pub fn put(&self, uid: u32, bytes: &[u8]) -> Result<Vec<ObjectId>, Problem> {
        let objects = bundle::objects(bytes);
        let objects = objects.map_err(|error| invalid("body", error.to_string()))?;
        let stored = self.objects.put(uid, &objects, self.most.1.get());
        stored.map_err(|error| match error {
            StoreError::TooMuch { n_stored, n_more, most } => {
                let [n_stored, n_more, most] = [n_stored, n_more, most].map(Bytes::new);
                let what = format!("a user may store at most {most} of folders and results");
                Problem::new(catalogue::FILES_FULL, what)
                    .because(format!("you have {n_stored} stored; this would add {n_more}"))
                    .try_this("leave files out in .gpoolignore, or ask for a larger user_files_max")
            }
            other => refusal_of(other).into(),
        })
    }

    /// Checks that a user has sent a folder whole. Its objects count as used now.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if an object is missing or the folder is too large.
    pub fn check_upload(&self, uid: u32, name: &str) -> Result<(), Refusal> {
        let bad = |why: String| invalid("upload", why);
        let manifest: ObjectId = name.parse().map_err(|error| bad(format!("{error}")))?;
        let lacking = || {
            bad(format!(
                "you have not sent the folder {name} to this server, or not for some time; send \
                 it again with --upload"
            ))
        };
        let members = match self.objects.members(uid, &manifest) {
            Err(StoreError::Missing(_) | StoreError::Damaged(_)) => return Err(lacking()),
            members => members.map_err(refusal_of)?,
        };
        let missing = self.objects.missing(uid, members.iter().copied()).map_err(refusal_of)?;
        if !missing.is_empty() {
            return Err(lacking());
        }
        let n_bytes = self.objects.manifest(uid, &manifest).map_err(refusal_of)?.n_bytes();
        self.check_size(n_bytes).map_err(bad)
    }

    fn check_size(&self, n_bytes: u64) -> Result<(), String> {
        let (n_bytes, most) = (Bytes::new(n_bytes), self.most.0);
        if n_bytes <= most {
            return Ok(());
        }
        Err(format!("the folder has {n_bytes}; upload_max in gpool.toml allows {most}"))
    }

    /// Most bytes of one folder.
    #[must_use]
    pub fn upload_max(&self) -> Bytes {
        self.most.0
    }

    /// Returns the object that an agent asks for, of a user.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] with the path of the object, or the disk refuses.
    pub fn read(&self, uid: u32, id: &ObjectId) -> io::Result<Vec<u8>> {
        self.objects.get(uid, id).map_err(|error| match error {
            StoreError::Missing(_) | StoreError::Damaged(_) => {
                let path = self.objects.path(uid, id).display().to_string();
                io::Error::new(io::ErrorKind::NotFound, path)
            }
            StoreError::Io { error, .. } => error,
            other => io::Error::other(other),
        })
    }

    /// Takes a part of the results of a task from its agent; returns names of objects.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the part can't be right, or the disk refuses.
    pub fn take(&self, task: TaskId, uid: u32, part: &ResultPart) -> io::Result<Vec<String>> {
        self.take_part(task, uid, part).map_err(|error| match error.kind() {
            // To an agent this means that there is no such task, and it removes the results.
            io::ErrorKind::NotFound => io::Error::other(error),
            _ => error,
        })
    }

    fn take_part(&self, task: TaskId, uid: u32, part: &ResultPart) -> io::Result<Vec<String>> {
        let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let names = |ids: Vec<ObjectId>| ids.iter().map(ToString::to_string).collect();
        let failed = |error: StoreError| match error {
            StoreError::Io { error, .. } => error,
            other @ StoreError::TooMuch { .. } => {
                io::Error::new(io::ErrorKind::QuotaExceeded, other)
            }
            other => bad(other.to_string()),
        };
        match part {
            ResultPart::Missing(wanted) => {
                let ids: Result<Vec<ObjectId>, _> = wanted.iter().map(|it| it.parse()).collect();
                let ids = ids.map_err(|error| bad(error.to_string()))?;
                Ok(names(self.objects.missing(uid, ids).map_err(failed)?))
            }
            ResultPart::Objects(bytes) => {
                let objects = bundle::objects(bytes).map_err(|error| bad(error.to_string()))?;
                let stored = self.objects.put(uid, &objects, self.most.1.get());
                Ok(names(stored.map_err(failed)?))
            }
            ResultPart::Complete { manifest } => {
                let manifest: ObjectId =
                    manifest.parse().map_err(|error| bad(format!("{error}")))?;
                let members = self.objects.members(uid, &manifest).map_err(failed)?;
                let missing = self.objects.missing(uid, members.iter().copied());
                let missing = missing.map_err(failed)?;
                if missing.is_empty() {
                    let (attempt, rank) = (task.attempt.0, task.rank);
                    let key = ResultKey { job: task.job.to_string(), attempt, rank };
                    self.results.put(&key, uid, manifest)?;
                }
                Ok(names(missing))
            }
        }
    }

    /// The results of a job by rank, with their manifests. Waits for the disk.
    #[must_use]
    pub fn results_of(&self, job: JobId) -> Vec<(u32, StoredResult, Option<Manifest>)> {
        let found = self.results.of(&job.to_string()).into_iter();
        found
            .map(|(rank, it)| {
                let manifest = self.objects.manifest(it.user, &it.manifest).ok();
                (rank, it, manifest)
            })
            .collect()
    }

    /// Whether the working folder of a job is stored.
    #[must_use]
    pub fn has_upload(&self, spec: &JobSpec) -> bool {
        spec.files
            .upload
            .as_deref()
            .is_none_or(|name| self.check_upload(spec.owner.uid, name).is_ok())
    }
}

fn invalid(field: &str, why: String) -> Refusal {
    Refusal::Invalid { field: field.to_owned(), why }
}

fn refusal_of(error: StoreError) -> Refusal {
    match error {
        StoreError::Manifest(error) => invalid("upload", error.to_string()),
        error if error.is_full() => Refusal::StorageFull { why: error.to_string() },
        other => internal(other),
    }
}

/// Reads the name of an object as an agent asks for it: `o1000-…`.
#[must_use]
pub fn object_name(text: &str) -> Option<(u32, ObjectId)> {
    let (uid, id) = text.strip_prefix(OBJECT_PREFIX)?.split_once('-')?;
    Some((uid.parse().ok()?, id.parse().ok()?))
}
