//! The audit log: one line of JSON for each change and each refused one, in files of the state
//! folder that only grow. The oldest files are removed.
//!
//! Each kind of entry has files of its own: what users do can't push out what administrators did.
//! Each line has a hash over itself and the line before it, so a line that was changed or removed
//! shows.

mod read;
mod verify;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use gpool_model::escape::repeated;
use gpool_store::{allocate, is_no_space};
use gpool_wire::{AuditEntry, Time};

pub use self::read::AuditSearch;
pub use self::verify::{Broken, verify};

/// The folder in the state folder.
pub const FOLDER: &str = "audit";
/// Bytes after which a new file begins.
pub const FILE_MAX: u64 = 8 << 20;
/// Files of a kind that are kept.
pub const FILES_MAX: usize = 8;
/// Bytes of an entry above which its values are left out.
pub const ENTRY_MAX: usize = 8 << 10;
/// Bytes that a file can grow on a full disk, so that the log has the ends of jobs.
const AHEAD: u64 = 128 << 10;
/// Bytes at the end of a file that are searched for its last line.
const TAIL: u64 = 1 << 20;
/// The socket of the system's log.
pub const SYSLOG: &str = "/dev/log";
/// Facility `authpriv`, severity `info`. Source: RFC 5424, section 6.2.1.
const PRIORITY: u8 = 10 * 8 + 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditKind {
    /// Changes with the rights of an administrator.
    Admin,
    /// Requests that were refused for lack of rights.
    Denials,
    /// Sign-ins, and changes that users make to their own tokens, subscriptions, projects and the
    /// like.
    Cluster,
    /// Changes of jobs by users.
    Jobs,
    /// Changes of jobs by administrators.
    AdminJobs,
}

impl AuditKind {
    pub const ALL: [Self; 5] =
        [Self::Admin, Self::Denials, Self::Cluster, Self::Jobs, Self::AdminJobs];

    fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Denials => "denials",
            Self::Cluster => "cluster",
            Self::Jobs => "jobs",
            Self::AdminJobs => "admin-jobs",
        }
    }

    /// Whether an entry must survive a power failure.
    fn is_durable(self) -> bool {
        matches!(self, Self::Admin | Self::Cluster)
    }
}

#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub user: Option<String>,
    /// Only those of this object: its address in the API, or the name that users see.
    pub object: Option<String>,
    /// Not before this time.
    pub since: Option<Time>,
    /// Not after this time.
    pub until: Option<Time>,
    /// Only entries with smaller numbers.
    pub before: Option<u64>,
    /// Only entries with larger numbers.
    pub after: Option<u64>,
}

impl AuditFilter {
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
            && self.after.is_none_or(|after| entry.id > after)
    }

    /// Whether no entry before this one is wanted.
    fn is_past(&self, entry: &AuditEntry) -> bool {
        self.since.is_some_and(|since| entry.at < since)
            || self.after.is_some_and(|after| entry.id <= after)
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

#[derive(Debug, Default)]
struct LogTail {
    /// The number of the last one of all.
    id: u64,
    /// The hash of the last one of each kind, by the order of [`AuditKind::ALL`].
    chains: [String; AuditKind::ALL.len()],
    /// The newest file of each kind, once an entry was written.
    files: [Option<Arc<File>>; AuditKind::ALL.len()],
    /// Whether the disk had no space for a file to grow.
    is_full: bool,
}

pub struct Audit {
    folder: PathBuf,
    /// One writer at a time.
    last: Mutex<LogTail>,
    /// The system's log, if entries go there too: a socket to send from, and the one of the log.
    syslog: Option<(UnixDatagram, PathBuf)>,
}

impl Audit {
    /// Opens the log of a state folder. With `syslog`, the socket of the system's log, entries go
    /// there, too.
    pub fn open(state_dir: &Path, syslog: Option<&Path>) -> anyhow::Result<Self> {
        let folder = state_dir.join(FOLDER);
        let shown = folder.display();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("can't create {shown}"))?;
        let mut last = LogTail::default();
        for (kind, chain) in AuditKind::ALL.iter().zip(&mut last.chains) {
            for path in files(&folder, *kind).iter().rev() {
                let entry = mend(path).with_context(|| format!("can't read {}", path.display()))?;
                if let Some(entry) = entry {
                    last.id = last.id.max(entry.id);
                    *chain = entry.chain.unwrap_or_default();
                }
            }
            // Each has its space from the beginning: its first entry may come on a full disk.
            let path = numbered(&folder, *kind, 0);
            let file = append(&path).with_context(|| format!("can't open {}", path.display()))?;
            last.is_full |= !has_grown(&file, file.metadata()?.len());
        }
        let socket = |log: &Path| {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>((socket, log.to_owned()))
        };
        let syslog = syslog.map(socket).transpose().context("can't make a socket")?;
        Ok(Self { folder, last: Mutex::new(last), syslog })
    }

    fn last(&self) -> MutexGuard<'_, LogTail> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry and gives it its number; returns its length. Waits for the disk if it must
    /// survive a power failure.
    pub fn add(&self, kind: AuditKind, entry: AuditEntry) -> io::Result<u64> {
        self.add_all(vec![(kind, entry)]).pop().unwrap_or(Ok(0))
    }

    /// Adds entries, and waits for the disk once; returns the result of each.
    pub fn add_all(&self, entries: Vec<(AuditKind, AuditEntry)>) -> Vec<io::Result<u64>> {
        let kinds: Vec<AuditKind> = entries.iter().map(|(kind, _)| *kind).collect();
        let mut last = self.last();
        let mut written: Vec<io::Result<u64>> =
            entries.into_iter().map(|(kind, entry)| self.write(&mut last, kind, entry)).collect();
        let files = AuditKind::ALL.map(|kind| {
            let is_new = kind.is_durable() && kinds.contains(&kind);
            last.files[kind as usize].clone().filter(|_| is_new)
        });
        drop(last);
        for (kind, file) in AuditKind::ALL.into_iter().zip(files) {
            let Some(Err(error)) = file.map(|file| file.sync_data()) else { continue };
            for (_, written) in kinds.iter().zip(&mut written).filter(|(of, _)| **of == kind) {
                *written = Err(io::Error::new(error.kind(), error.to_string()));
            }
        }
        written
    }

    fn write(&self, last: &mut LogTail, kind: AuditKind, mut entry: AuditEntry) -> io::Result<u64> {
        entry.id = last.id + 1;
        let (mut line, chain) = chained(&last.chains[kind as usize], within_size(entry)?);
        line.push(b'\n');
        let (mut file, mut length) = self.open_file(last, kind)?;
        if length + line.len() as u64 > FILE_MAX && self.begin_file(kind)? {
            if kind.is_durable() {
                // Earlier entries of the same call may be in it.
                file.sync_data()?;
            }
            (file, length) = self.open_file(last, kind)?;
        }
        if let Err(error) = (&*file).write_all(&line) {
            // A part of a line would spoil the next one.
            file.set_len(length)?;
            return Err(error);
        }
        last.chains[kind as usize] = chain;
        let n_steps = |length: u64| length.div_ceil(AHEAD / 2);
        let after = length + line.len() as u64;
        if last.is_full || n_steps(after) > n_steps(length) {
            last.is_full = !has_grown(&file, after);
        }
        last.id += 1;
        self.send(&line);
        Ok(line.len() as u64)
    }

    /// Returns the file for the next entry, and its length. It is opened again if it was renamed or
    /// removed.
    fn open_file(&self, last: &mut LogTail, kind: AuditKind) -> io::Result<(Arc<File>, u64)> {
        let path = numbered(&self.folder, kind, 0);
        let file = &mut last.files[kind as usize];
        if let Some(file) = file {
            let (own, there) = (file.metadata()?, path.symlink_metadata());
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
                return Ok((Arc::clone(file), own.len()));
            }
        }
        let opened = Arc::new(append(&path)?);
        *file = Some(Arc::clone(&opened));
        let length = opened.metadata()?.len();
        Ok((opened, length))
    }

    /// Whether a file could not grow because the disk is full. New entries use the reserve then.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.last().is_full
    }

    /// Sends a line to the system's log. It may be away or full: the file has the entry.
    fn send(&self, line: &[u8]) {
        let Some((socket, log)) = &self.syslog else { return };
        let mut message = format!("<{PRIORITY}>gpool: ").into_bytes();
        message.extend_from_slice(line);
        if let Err(error) = socket.send_to(&message, log) {
            let log = log.display();
            tracing::warn!(%error, "can't send an entry of the audit log to {log}");
        }
    }

    /// Renames `jobs.jsonl` to `jobs.1.jsonl`, that to `jobs.2.jsonl` and so on; `false` if the
    /// disk has no space for a new file, and the last one goes on.
    fn begin_file(&self, kind: AuditKind) -> io::Result<bool> {
        let path = |n: usize| numbered(&self.folder, kind, n);
        let next = self.folder.join(format!("{}.next", kind.name()));
        match append(&next).and_then(|file| allocate(&file, AHEAD)) {
            Err(error) if is_no_space(&error) => return Ok(false),
            made => made?,
        }
        for n in (0..FILES_MAX - 1).rev() {
            match fs::rename(path(n), path(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&next, path(0))?;
        Ok(true)
    }
}

/// An entry as JSON, without the values that make it too long.
fn within_size(mut entry: AuditEntry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&entry)?;
    for part in [3, 2, 1, 0] {
        if line.len() <= ENTRY_MAX {
            break;
        }
        match part {
            3 => cut(&mut entry.request),
            2 => cut(&mut entry.after),
            1 => cut(&mut entry.before),
            _ => {
                entry.objects.truncate(16);
                entry.objects.iter_mut().for_each(|object| *object = repeated(object));
            }
        }
        line = serde_json::to_vec(&entry)?;
    }
    Ok(line)
}

/// Replaces a value by its length.
fn cut(value: &mut Option<serde_json::Value>) {
    if let Some(value) = value {
        let n_bytes = serde_json::to_vec(value).map_or(0, |bytes| bytes.len());
        *value = serde_json::json!({"left_out_bytes": n_bytes});
    }
}

/// An entry's JSON as a line with its hash, and the hash: over the one before it and the JSON
/// without a hash.
fn chained(before: &str, mut line: Vec<u8>) -> (Vec<u8>, String) {
    let chain = chain_after(before, &line);
    line.pop();
    line.extend_from_slice(format!(",\"chain\":\"{chain}\"}}").as_bytes());
    (line, chain)
}

/// The hash after an entry, from its JSON without one.
fn chain_after(before: &str, entry: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.as_bytes()).update(entry);
    hasher.finalize().to_hex().to_string()
}

/// Allocates space behind the end of a file; false if there is none.
fn has_grown(file: &File, length: u64) -> bool {
    !allocate(file, length + AHEAD).is_err_and(|error| is_no_space(&error))
}

fn append(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

fn numbered(folder: &Path, kind: AuditKind, n: usize) -> PathBuf {
    match n {
        0 => folder.join(format!("{}.jsonl", kind.name())),
        n => folder.join(format!("{}.{n}.jsonl", kind.name())),
    }
}

/// The files of a kind, the newest first.
fn files(folder: &Path, kind: AuditKind) -> Vec<PathBuf> {
    let all = (0..FILES_MAX).map(|n| numbered(folder, kind, n));
    all.filter(|path| path.exists()).collect()
}

/// Returns a file's last entry, and ends a line that a crash cut short.
fn mend(path: &Path) -> io::Result<Option<AuditEntry>> {
    let mut file = File::options().read(true).append(true).open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    if tail.last().is_some_and(|byte| *byte != b'\n') {
        file.write_all(b"\n")?;
    }
    let mut lines = tail.rsplit(|byte| *byte == b'\n');
    Ok(lines.find_map(|line| serde_json::from_slice(line).ok()))
}
