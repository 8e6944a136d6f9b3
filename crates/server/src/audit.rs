//! The audit log: one line of JSON for each change, in files of the state folder that only grow,
//! and the oldest files are removed.
//!
//! Changes of jobs have files of their own, so that a user with many jobs does not push out the
//! changes of the cluster.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use gpool_wire::{AuditEntry, Time};

/// The folder in the state folder.
pub const FOLDER: &str = "audit";
/// Bytes after which a new file begins.
pub const FILE_MAX: u64 = 8 << 20;
/// Files of a kind that are kept.
pub const FILES_MAX: usize = 8;
/// Bytes at the end of a file that are searched for its last line.
const TAIL: u64 = 1 << 20;

/// What a change is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nodes, projects, policies, users, tokens and so on.
    Cluster,
    /// Jobs.
    Jobs,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Cluster, Self::Jobs];

    fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Jobs => "jobs",
        }
    }
}

/// Which entries to read.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those of this object: its address in the API, or the name that users see.
    pub object: Option<String>,
    /// Not before this time.
    pub since: Option<Time>,
    /// Not after this time.
    pub until: Option<Time>,
    /// Only entries with smaller numbers.
    pub before: Option<u64>,
}

impl Wanted {
    fn has(&self, entry: &AuditEntry) -> bool {
        let is_user = |user: &String| {
            entry.user == *user || entry.network_user.as_ref().is_some_and(|it| it == user)
        };
        self.user.as_ref().is_none_or(is_user)
            && self
                .object
                .as_ref()
                .is_none_or(|object| entry.objects.iter().any(|it| is_of(it, object)))
            && self.since.is_none_or(|since| since <= entry.at)
            && self.until.is_none_or(|until| entry.at <= until)
            && self.before.is_none_or(|before| entry.id < before)
    }
}

/// Whether an entry's object is the wanted one: `nodes/lab1`, its name `lab1`, or its collection
/// `nodes`. A job includes its elements, `jobs/12.3`, and a node its GPUs, `nodes/lab1:0`.
fn is_of(object: &str, wanted: &str) -> bool {
    let (collection, name) = object.split_once('/').unwrap_or((object, ""));
    let is_named = |wanted: &str| {
        let part = name.strip_prefix(wanted);
        part.is_some_and(|rest| match collection {
            "jobs" => rest.is_empty() || rest.starts_with('.'),
            "nodes" => rest.is_empty() || rest.starts_with(':'),
            _ => rest.is_empty(),
        })
    };
    match wanted.split_once('/') {
        Some((of, name)) => of == collection && is_named(name),
        None => wanted == collection || is_named(wanted),
    }
}

/// The log of one server.
pub struct Audit {
    folder: PathBuf,
    // One writer at a time; the number is that of the last entry.
    last: Mutex<u64>,
}

impl Audit {
    /// Opens the log of a state folder.
    ///
    /// # Errors
    /// The folder or a file can't be made or read.
    pub fn open(state_dir: &Path) -> anyhow::Result<Self> {
        let folder = state_dir.join(FOLDER);
        let shown = folder.display();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("can't create {shown}"))?;
        let mut last = 0;
        for kind in Kind::ALL {
            for path in files(&folder, kind) {
                let id = mend(&path).with_context(|| format!("can't read {}", path.display()))?;
                last = last.max(id.unwrap_or(0));
            }
        }
        Ok(Self { folder, last: Mutex::new(last) })
    }

    fn last(&self) -> MutexGuard<'_, u64> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry and gives it its number. Waits for the disk if the change is of the cluster.
    ///
    /// # Errors
    /// It can't be written.
    pub fn add(&self, kind: Kind, mut entry: AuditEntry) -> io::Result<()> {
        let mut last = self.last();
        entry.id = *last + 1;
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        let path = self.folder.join(format!("{}.jsonl", kind.name()));
        let mut file = File::options().append(true).create(true).mode(0o600).open(&path)?;
        if file.metadata()?.len() + line.len() as u64 > FILE_MAX {
            self.begin_file(kind)?;
            file = File::options().append(true).create(true).mode(0o600).open(&path)?;
        }
        file.write_all(&line)?;
        *last = entry.id;
        drop(last);
        match kind {
            Kind::Cluster => file.sync_data(),
            Kind::Jobs => Ok(()),
        }
    }

    /// Renames `jobs.jsonl` to `jobs.1.jsonl`, that to `jobs.2.jsonl` and so on.
    fn begin_file(&self, kind: Kind) -> io::Result<()> {
        let path = |n: usize| numbered(&self.folder, kind, n);
        for n in (0..FILES_MAX - 1).rev() {
            match fs::rename(path(n), path(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the last entries that are wanted, the newest first. Reads files.
    ///
    /// # Errors
    /// A file can't be read.
    pub fn read(&self, wanted: &Wanted, limit: usize) -> io::Result<Vec<AuditEntry>> {
        let mut found = Vec::new();
        for kind in Kind::ALL {
            let before = found.len();
            for path in files(&self.folder, kind) {
                let text = match fs::read(&path) {
                    // The oldest may have been removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    read => read?,
                };
                let lines = text.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                // A line that a crash cut short is no entry.
                let entries = lines.filter_map(|line| serde_json::from_slice(line).ok());
                let left = limit.saturating_sub(found.len() - before);
                found.extend(entries.filter(|entry| wanted.has(entry)).take(left));
            }
        }
        found.sort_by_key(|entry: &AuditEntry| std::cmp::Reverse(entry.id));
        found.truncate(limit);
        Ok(found)
    }
}

fn numbered(folder: &Path, kind: Kind, n: usize) -> PathBuf {
    match n {
        0 => folder.join(format!("{}.jsonl", kind.name())),
        n => folder.join(format!("{}.{n}.jsonl", kind.name())),
    }
}

/// The files of a kind, the newest first.
fn files(folder: &Path, kind: Kind) -> Vec<PathBuf> {
    let all = (0..FILES_MAX).map(|n| numbered(folder, kind, n));
    all.filter(|path| path.exists()).collect()
}

/// Returns the number of a file's last entry, and ends a line that a crash cut short.
fn mend(path: &Path) -> io::Result<Option<u64>> {
    let mut file = File::options().read(true).append(true).open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    if tail.last().is_some_and(|byte| *byte != b'\n') {
        file.write_all(b"\n")?;
    }
    let mut lines = tail.rsplit(|byte| *byte == b'\n');
    Ok(lines.find_map(|line| serde_json::from_slice::<AuditEntry>(line).ok()).map(|it| it.id))
}
