//! Commits with made-up content, the expected content of the store after them, and mounts for tests
//! that need one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};

use gpool_model::{JobNumber, Revision, Seq, Term, Timestamp};
use gpool_store::{
    ArchiveEntry, ArchiveFilter, Commit, CommitError, JournalEntry, Loaded, Reader, RecordChange,
    Store, StoreOptions,
};
use tempfile::TempDir;

/// The expected content of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    pub revision: u64,
    pub seq: u64,
    pub records: BTreeMap<(String, String), (u64, Vec<u8>)>,
    pub journal: Vec<JournalEntry>,
    pub archive: Vec<ArchiveEntry>,
}

impl Truth {
    /// Returns the next commit and adds it to the expected content: jobs come, change and end.
    pub fn next(&mut self) -> Commit {
        self.revision += 1;
        let revision = self.revision;
        let mut commit = commit(revision, vec![], vec![], vec![]);
        let text =
            |what: &str| format!("{{\"{what}\":\"{}\"}}", "x".repeat(revision as usize % 97));
        let job = format!("{revision}");
        commit.records.push(change("job", &job, Some(&text("job"))));
        commit.records.push(change("cluster", "", Some(&format!("{revision}"))));
        if revision > 5 && revision.is_multiple_of(3) {
            commit.records.push(change("job", &format!("{}", revision - 5), None));
            commit.archive.push(ended(revision - 5, &text("ended")));
        }
        for _ in 0..revision % 3 {
            self.seq += 1;
            commit.journal.push(entry(self.seq, &text("event")));
        }
        self.apply(&commit);
        commit
    }

    fn apply(&mut self, commit: &Commit) {
        for change in &commit.records {
            let key = (change.kind.clone(), change.key.clone());
            match &change.value {
                Some(value) => self.records.insert(key, (commit.revision.0, value.clone())),
                None => self.records.remove(&key),
            };
        }
        self.journal.extend(commit.journal.iter().cloned());
        self.archive.extend(commit.archive.iter().cloned());
    }

    /// The expected content after `n` commits.
    pub fn after(n: u64) -> Self {
        let mut truth = Self::default();
        for _ in 0..n {
            truth.next();
        }
        truth
    }

    /// True if the loaded records are the expected ones.
    pub fn is_loaded(&self, loaded: &Loaded) -> bool {
        let records: BTreeMap<_, _> = loaded
            .records
            .iter()
            .map(|record| {
                let key = (record.kind.clone(), record.key.clone());
                (key, (record.revision.0, record.value.clone()))
            })
            .collect();
        loaded.revision.0 == self.revision
            && loaded.seq.0 == self.seq
            && records.len() == loaded.records.len()
            && records == self.records
    }

    /// True if everything that can be read from the store is as expected.
    pub fn is_read(&self, reader: &Reader) -> bool {
        let everything = ArchiveFilter { limit: u32::MAX, ..ArchiveFilter::default() };
        let mut archive = self.archive.clone();
        archive.sort_by_key(|entry| std::cmp::Reverse(entry.job));
        self.is_loaded(&reader.load().unwrap())
            && reader.journal(Seq(1), u32::MAX).unwrap() == self.journal
            && reader.archive(&everything).unwrap() == archive
    }
}

pub fn commit(
    revision: u64,
    records: Vec<RecordChange>,
    journal: Vec<JournalEntry>,
    archive: Vec<ArchiveEntry>,
) -> Commit {
    Commit {
        fence: Term(1),
        revision: Revision(revision),
        records,
        journal,
        archive,
        elements: vec![],
        groups: vec![],
    }
}

pub fn change(kind: &str, key: &str, value: Option<&str>) -> RecordChange {
    let value = value.map(|value| value.as_bytes().to_vec());
    RecordChange { kind: kind.to_owned(), key: key.to_owned(), value }
}

pub fn entry(seq: u64, body: &str) -> JournalEntry {
    let time = Timestamp::new(1_700_000_000_000 + seq);
    JournalEntry { seq: Seq(seq), time, body: body.as_bytes().to_vec() }
}

pub fn ended(job: u64, body: &str) -> ArchiveEntry {
    ArchiveEntry {
        job: JobNumber(job),
        ended_at: Timestamp::new(1_700_000_000_000 + job),
        user: ["ann", "bob"][job as usize % 2].to_owned(),
        project: ["red", "blue", "green"][job as usize % 3].to_owned(),
        name: format!("train-{}", job % 4),
        state: ["succeeded", "failed", "cancelled"][job as usize / 2 % 3].to_owned(),
        body: body.as_bytes().to_vec(),
    }
}

/// A state folder that is removed after the test.
pub struct State {
    pub dir: PathBuf,
    _parent: TempDir,
}

impl State {
    pub fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        Self { dir: parent.path().join("state"), _parent: parent }
    }

    /// A state folder with a store after `n` commits, each in its own transaction.
    pub fn with_commits(n: u64) -> (Self, Truth) {
        let state = Self::new();
        let mut truth = Truth::default();
        let (mut store, _) = state.open();
        for _ in 0..n {
            store.commit(&[truth.next()]).unwrap();
        }
        (state, truth)
    }

    pub fn open(&self) -> (Store, Loaded) {
        Store::open(&self.dir, &StoreOptions::default()).unwrap()
    }

    /// Returns the error of opening the store.
    pub fn refusal(&self) -> String {
        match Store::open(&self.dir, &StoreOptions::default()) {
            Ok(_) => panic!("the store was opened"),
            Err(error) => error.to_string(),
        }
    }
}

/// Returns the files of a store with their content, by name. Skips an empty log, which a mere look
/// makes.
fn files(dir: &Path) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    ["store.db", "store.db-wal", "mark"]
        .into_iter()
        .filter_map(move |name| Some((name, fs::read(dir.join(name)).ok()?)))
        .filter(|(_, bytes)| !bytes.is_empty())
}

/// Returns hashes of a store's content, to be compared later.
pub fn content(dir: &Path) -> BTreeMap<&'static str, blake3::Hash> {
    files(dir).map(|(name, bytes)| (name, blake3::hash(&bytes))).collect()
}

pub fn copy_store(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for (name, bytes) in files(from) {
        fs::write(to.join(name), bytes).unwrap();
    }
}

/// Returns a callback that forwards results.
pub fn results() -> (gpool_store::OnDone, Receiver<Result<Revision, CommitError>>) {
    let (sender, receiver) = mpsc::channel();
    (Box::new(move |result| sender.send(result).unwrap()), receiver)
}

/// A file system that is unmounted after the test.
pub struct Mount {
    pub dir: PathBuf,
    _parent: TempDir,
}

impl Mount {
    /// Mounts an empty file system in memory, or prints why the test can't run.
    pub fn tmpfs(size: &str) -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("mount");
        fs::create_dir(&dir).unwrap();
        let options = format!("size={size},mode=700");
        let mounted = mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], &dir);
        mounted.then_some(Self { dir, _parent: parent })
    }

    /// Mounts an empty btrfs in a file, or prints why the test can't run.
    pub fn btrfs() -> Option<Self> {
        Self::image("mkfs.btrfs", 256 << 20)
    }

    /// Mounts an empty ext4 in a file, or prints why the test can't run.
    pub fn ext4() -> Option<Self> {
        Self::image("mkfs.ext4", 128 << 20)
    }

    /// Mounts an empty xfs in a file, or prints why the test can't run.
    pub fn xfs() -> Option<Self> {
        Self::image("mkfs.xfs", 320 << 20)
    }

    fn image(maker: &str, n_bytes: u64) -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        let (image, dir) = (parent.path().join("image"), parent.path().join("mount"));
        fs::File::create(&image).unwrap().set_len(n_bytes).unwrap();
        fs::create_dir(&dir).unwrap();
        let made = Command::new(maker).arg("-q").arg(&image).output();
        if !made.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: this case needs {maker}: {made:?}");
            return None;
        }
        let mounted = mount(&["-o", "loop", image.to_str().unwrap()], &dir);
        mounted.then_some(Self { dir, _parent: parent })
    }

    /// Mounts it again, with other options.
    pub fn remount(&self, options: &str) {
        assert!(mount(&["-o", &format!("remount,{options}")], &self.dir), "can't remount");
    }
}

fn mount(arguments: &[&str], dir: &Path) -> bool {
    let done = Command::new("mount").args(arguments).arg(dir).output();
    let mounted = done.as_ref().is_ok_and(|output| output.status.success());
    if !mounted {
        eprintln!("SKIPPED: this case needs root and mount(8): {done:?}");
    }
    mounted
}

impl Drop for Mount {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(&self.dir).status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("can't unmount {}", self.dir.display());
        }
    }
}
