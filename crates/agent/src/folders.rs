//! Working folders that the agent makes for tasks: a fresh one for each attempt, with the files
//! that the user sent. They come from the server, or from a cache of this node.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use gpool_files::{Manifest, ObjectId, ObjectStore, tree};
use gpool_link::ServerLink;
use gpool_model::agent::TaskOrder;
use gpool_model::id::TaskId;
use gpool_model::job::{BlobId, EndCause};
use gpool_model::launch::Lack;
use gpool_model::unit::Bytes;
use gpool_shepherd::layout::Layout;
use gpool_sys::clock;
use serde::{Deserialize, Serialize};

use crate::input::{InputSender, ThreadInput};

/// The start of the names of folders that are incomplete, or about to be removed.
const LOOSE: &str = ".loose-";

/// What the agent remembers about a working folder, in a file beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderRecord {
    /// Its task.
    pub task: TaskId,
    /// The user of the job, by ID on the server.
    pub owner: u32,
    /// The same by ID on this node.
    pub uid: u32,
    /// Whether the job runs in a container.
    pub in_container: bool,
    /// The patterns of its results.
    pub download: Vec<String>,
}

impl FolderRecord {
    /// Reads the record of a task; `None` if it has no working folder.
    pub fn read(layout: &Layout, task: TaskId) -> Option<Self> {
        serde_json::from_slice(&fs::read(layout.work_record(task)).ok()?).ok()
    }

    /// Reads the records of all working folders.
    pub fn all(layout: &Layout) -> Vec<Self> {
        let entries = fs::read_dir(layout.work()).into_iter().flatten().flatten();
        let records = entries.map(|entry| entry.path());
        let records = records.filter(|path| path.extension().is_some_and(|it| it == "json"));
        records.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
    }
}

/// Makes working folders.
#[derive(Clone)]
pub(crate) struct Folders {
    pub layout: Layout,
    pub server: Arc<dyn ServerLink>,
    inputs: InputSender,
    cache: Arc<ObjectStore>,
    cache_max: Bytes,
    n_loose: Arc<AtomicU64>,
}

impl Folders {
    /// Makes the folder of working folders, and opens the cache.
    ///
    /// # Errors
    /// A folder can't be used.
    pub fn open(
        layout: &Layout,
        server: &Arc<dyn ServerLink>,
        inputs: &InputSender,
        cache_max: Bytes,
    ) -> io::Result<Self> {
        let folders = Self {
            layout: layout.clone(),
            server: Arc::clone(server),
            inputs: inputs.clone(),
            cache: Arc::new(ObjectStore::open(&layout.file_cache()).map_err(io::Error::other)?),
            cache_max,
            n_loose: Arc::default(),
        };
        make(&layout.work(), 0o711)?;
        let loose = fs::read_dir(layout.work())?.flatten().map(|entry| entry.path());
        let is_loose = |path: &PathBuf| {
            path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(LOOSE))
        };
        // A killed agent left them.
        loose.filter(is_loose).for_each(remove_apart);
        Ok(folders)
    }

    /// Makes the folder of a task on a thread of its own, and answers by [`ThreadInput::Folder`].
    /// `owner` is the user's ID on the server.
    pub fn make(&self, order: &TaskOrder, owner: u32) {
        let (folders, order) = (self.clone(), order.clone());
        let task = order.task();
        let inputs = self.inputs.clone();
        let work = move || {
            if let Some(built) = folders.build(&order, owner) {
                folders.inputs.send(ThreadInput::Folder { task, built });
            }
        };
        if let Err(error) = std::thread::Builder::new().name("folder".to_owned()).spawn(work) {
            let built =
                Err(EndCause::LaunchFailed { why: format!("can't start a thread: {error}") });
            inputs.send(ThreadInput::Folder { task, built });
        }
    }

    /// Returns the path of a complete folder; `None` if the agent ends before the server answers.
    fn build(&self, order: &TaskOrder, owner: u32) -> Option<Result<PathBuf, EndCause>> {
        let spec = &order.spec;
        let path = self.loose();
        let mut is_cut = false;
        let mut fetch = |id: &ObjectId| match self.fetch(owner, id) {
            Some(bytes) => bytes,
            None => {
                is_cut = true;
                Err(io::ErrorKind::Interrupted.into())
            }
        };
        let mut build = || {
            let manifest = match spec.files.upload.as_deref() {
                None => empty(),
                Some(name) => {
                    let id: ObjectId = name.parse().map_err(io::Error::other)?;
                    Manifest::read(&fetch(&id)?).map_err(io::Error::other)?
                }
            };
            self.check_space(&manifest)?;
            let is_root = rustix::process::geteuid().is_root();
            let user = is_root.then_some((spec.owner.uid, spec.owner.gid));
            tree::build(&manifest, &path, user, &mut fetch)
        };
        let built = build();
        fail::fail_point!("agent-folder-built");
        if is_cut {
            return None;
        }
        let built = built.map(|()| path.clone()).map_err(|error| {
            remove_apart(path);
            self.cause(&error)
        });
        if let Err(error) = self.cache.trim(self.cache_max.get()) {
            tracing::warn!(%error, "can't remove old files from the cache");
        }
        Some(built)
    }

    fn check_space(&self, manifest: &Manifest) -> io::Result<()> {
        let need = manifest.n_bytes();
        let free = gpool_files::free_bytes(&self.layout.work()).unwrap_or(u64::MAX);
        if need <= free {
            return Ok(());
        }
        // Perhaps it is the cache that takes the space.
        drop(self.cache.trim(0));
        let free = gpool_files::free_bytes(&self.layout.work()).unwrap_or(u64::MAX);
        if need <= free {
            return Ok(());
        }
        let (need, free) = (Bytes::new(need), Bytes::new(free));
        let what = format!("the files of the job need {need}, and {free} are free");
        Err(io::Error::new(io::ErrorKind::StorageFull, what))
    }

    /// Why a task can't have its folder here. A full disk sends it to another node.
    fn cause(&self, error: &io::Error) -> EndCause {
        let work = self.layout.work();
        match error.kind() {
            io::ErrorKind::NotFound => EndCause::NodeLacks(Lack::Stored(error.to_string())),
            _ if gpool_files::is_full(error) => {
                let why = format!("its disk is full ({}): {error}", work.display());
                EndCause::NodeLacks(Lack::Space(why))
            }
            _ => {
                let why = format!("can't make its working folder: {error}");
                EndCause::LaunchFailed { why }
            }
        }
    }

    /// Returns an object, from the cache or the server; `None` if the agent ends before.
    fn fetch(&self, owner: u32, id: &ObjectId) -> Option<io::Result<Vec<u8>>> {
        if let Ok(bytes) = self.cache.get(owner, id) {
            drop(self.cache.missing(owner, [*id]));
            return Some(Ok(bytes));
        }
        let (answers, answer) = channel();
        let name = BlobId(format!("o{owner}-{id}").into());
        self.server.blob(&name, Box::new(move |content| drop(answers.send(content))));
        let bytes = match answer.recv().ok()? {
            Ok(bytes) => bytes,
            Err(error) => return Some(Err(error)),
        };
        if ObjectId::of(&bytes) != *id {
            return Some(Err(io::Error::other(format!("the server sent wrong bytes for {id}"))));
        }
        // The next task of the user fetches it again otherwise.
        if let Err(error) = self.cache.put(owner, &[&bytes], u64::MAX) {
            tracing::warn!(%error, "can't keep a file in the cache");
            drop(self.cache.trim(0));
        }
        Some(Ok(bytes))
    }

    /// Gives a complete folder to its task; returns its path.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn publish(
        &self,
        order: &TaskOrder,
        owner: u32,
        built: &Path,
    ) -> Result<PathBuf, EndCause> {
        let (task, spec) = (order.task(), &order.spec);
        // Of an agent that was killed before the task was launched.
        self.discard(task);
        let record = FolderRecord {
            task,
            owner,
            uid: spec.owner.uid,
            in_container: spec.container.is_some(),
            download: spec.files.download.clone(),
        };
        let path = self.layout.work_folder(task);
        let write = || -> io::Result<()> {
            let loose = self.loose();
            let mut file = File::options().write(true).create_new(true).open(&loose)?;
            io::Write::write_all(&mut file, &serde_json::to_vec(&record)?)?;
            file.sync_all()?;
            fs::rename(&loose, self.layout.work_record(task))?;
            fs::rename(built, &path)
        };
        fail::fail_point!("agent-folder-publish");
        write().map_err(|error| self.cause(&error))?;
        Ok(path)
    }

    /// Removes the folder of a task that does not run.
    pub fn discard(&self, task: TaskId) {
        let record = self.layout.work_record(task);
        let path = self.layout.work_folder(task);
        if path.symlink_metadata().is_ok() {
            self.remove(&path);
        }
        drop(fs::remove_file(record));
    }

    /// Removes a folder on a thread of its own.
    pub fn remove(&self, path: &Path) {
        let loose = self.loose();
        match fs::rename(path, &loose) {
            Ok(()) => remove_apart(loose),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "can't remove a working folder");
            }
        }
    }

    /// A new path for an incomplete folder.
    fn loose(&self) -> PathBuf {
        let n = self.n_loose.fetch_add(1, Ordering::Relaxed);
        let (pid, at) = (std::process::id(), clock::boot_ms());
        self.layout.work().join(format!("{LOOSE}{pid}-{at}-{n}"))
    }
}

fn empty() -> Manifest {
    Manifest::new(Vec::new(), Vec::new()).expect("an empty folder is allowed")
}

fn make(folder: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
}

/// Removes a file or folder, which may be large, on a thread of its own.
fn remove_apart(path: PathBuf) {
    let work = move || {
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %path.display(), "can't remove a working folder");
            }
            _ => {}
        }
    };
    // The next agent removes it otherwise.
    drop(std::thread::Builder::new().name("remove".to_owned()).spawn(work));
}
