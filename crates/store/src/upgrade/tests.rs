//! Stores of the first layout, upgraded and killed at it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpool_model::{JobNumber, Revision, Seq, Term, Timestamp};

use super::*;
use crate::open::{Options, Store};
use crate::reader::Reader;
use crate::row::{ArchiveEntry, Commit, JournalEntry, RecordChange};
use crate::schema::{MIGRATIONS, SCHEMA};
use crate::verify::verify;

const FIRST: &[Migration] = MIGRATIONS.split_at(1).0;

fn commit(number: u64) -> Commit {
    let body = vec![b'x'; usize::try_from(number % 700).unwrap()];
    let at = Timestamp::new(1_700_000_000_000 + number);
    let record = RecordChange {
        kind: "job".to_owned(),
        key: (number % 50).to_string(),
        value: Some(body.clone()),
    };
    let ended = ArchiveEntry {
        job: JobNumber(number),
        ended_at: at,
        user: "ann".to_owned(),
        project: "red".to_owned(),
        name: format!("train-{}", number % 9),
        state: ["succeeded", "failed"][usize::from(number.is_multiple_of(5))].to_owned(),
        body: body.clone(),
    };
    Commit {
        fence: Term(1),
        revision: Revision(number),
        records: vec![record],
        journal: vec![JournalEntry { seq: Seq(number), time: at, body }],
        archive: vec![ended],
        elements: vec![],
    }
}

/// Makes a store of the first layout as a killed server leaves it, its last commits in the log.
fn old_store(dir: &Path, n_commits: u64) {
    let made = dir.with_file_name("made");
    let (mut store, _) = Store::open_as(&made, &Options::default(), FIRST).unwrap();
    let commits: Vec<Commit> = (1..=n_commits).map(commit).collect();
    // The first is folded into the database at once; what follows stays in the log.
    let (first, rest) = commits.split_at(1);
    store.commit(first).unwrap();
    for group in rest.chunks(500) {
        store.commit(group).unwrap();
    }
    copy_files(&made, dir);
}

fn copy_files(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    file::create_private_dir(to).unwrap();
    for name in ["store.db", "store.db-wal", "mark"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

/// The layout of a store that must hold those commits and nothing else.
fn layout_with(dir: &Path, n_commits: u64) -> u32 {
    let reader = Reader::open(dir).unwrap();
    let loaded = reader.load().unwrap();
    assert_eq!(loaded.revision, Revision(n_commits));
    assert_eq!(loaded.records.len(), 50);
    let journal = reader.journal(Seq(1), u32::MAX).unwrap();
    let is_whole = journal.iter().zip(1..).all(|(entry, n)| *entry == commit(n).journal[0]);
    assert!(is_whole && journal.len() as u64 == n_commits);
    for job in [1, n_commits / 2, n_commits] {
        assert_eq!(reader.archived(JobNumber(job)).unwrap(), commit(job).archive.pop());
    }
    let report = verify(dir).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(report.n_archive, n_commits);
    Head::read(&crate::database::connect(&dir.join("store.db")).unwrap()).unwrap().unwrap().schema
}

#[test]
fn an_old_store_is_read_as_it_is_and_upgraded_when_opened() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    old_store(&dir, 120);
    assert_eq!(layout_with(&dir, 120), 1);
    let (mut store, loaded) = Store::open(&dir, &Options::default()).unwrap();
    assert_eq!(loaded.revision, Revision(120));
    store.commit(&[commit(121)]).unwrap();
    drop(store);
    assert_eq!(layout_with(&dir, 121), SCHEMA);
    // The gpool before refuses it, and is led back by what was kept.
    let refused = Store::open_as(&dir, &Options::default(), FIRST);
    assert!(matches!(refused, Err(OpenError::Newer { found: SCHEMA, .. })));
    let kept = dir.join("store.db.schema-1");
    let back = parent.path().join("back");
    crate::restore(&kept, &back, crate::Existing::Refuse).unwrap();
    assert_eq!(layout_with(&back, 120), 1);
    let (_, loaded) = Store::open_as(&back, &Options::default(), FIRST).unwrap();
    assert_eq!(loaded.revision, Revision(120));
}

#[test]
fn all_steps_are_taken_or_none() {
    const NOTE: Migration =
        Migration { to: SCHEMA + 1, sql: "CREATE TABLE note (text TEXT) STRICT" };
    let step = |sql| Migration { to: SCHEMA + 2, sql };
    let all = |last: &'static str| -> Vec<Migration> {
        let known = MIGRATIONS.iter().map(|known| Migration { to: known.to, sql: known.sql });
        known.chain([NOTE, step(last)]).collect()
    };
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    old_store(&dir, 120);
    let failing = all("INSERT INTO note VALUES ('lost'); SELECT nothing FROM nowhere");
    assert!(Store::open_as(&dir, &Options::default(), &failing).is_err());
    assert_eq!(layout_with(&dir, 120), 1);
    let good = all("INSERT INTO note VALUES ('kept')");
    for _ in 0..2 {
        let (store, _) = Store::open_as(&dir, &Options::default(), &good).unwrap();
        let notes: String =
            store.connection.query_row("SELECT text FROM note", [], |row| row.get(0)).unwrap();
        assert_eq!(notes, "kept");
        assert_eq!(store.head.schema, SCHEMA + 2);
    }
}

#[test]
fn a_log_cut_anywhere_in_an_upgrade_is_the_old_layout_or_the_new() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, cut) = (parent.path().join("state"), parent.path().join("cut"));
    old_store(&dir, 120);
    let log = |dir: &Path| dir.join("store.db-wal");
    let before = fs::metadata(log(&dir)).unwrap().len();
    let opened = Store::open(&dir, &Options::default()).unwrap();
    let bytes = fs::read(log(&dir)).unwrap();
    copy_files(&dir, &cut);
    drop(opened);
    let kept = cut.with_file_name("kept");
    copy_files(&cut, &kept);
    let before = usize::try_from(before).unwrap();
    assert!(bytes.len() > before + 4096, "the upgrade went through the log");
    let mut layouts = Vec::new();
    for end in (before..bytes.len()).step_by(512).chain([bytes.len()]) {
        copy_files(&kept, &cut);
        fs::write(log(&cut), &bytes[..end]).unwrap();
        layouts.push(layout_with(&cut, 120));
        drop(Store::open(&cut, &Options::default()).unwrap());
        assert_eq!(layout_with(&cut, 120), SCHEMA);
    }
    assert!(layouts.is_sorted() && layouts.first() == Some(&1));
    assert_eq!(layouts.last(), Some(&SCHEMA));
}

#[test]
fn a_store_that_lost_commits_is_not_upgraded() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    old_store(&dir, 120);
    let log = dir.join("store.db-wal");
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() - 1000]).unwrap();
    let refused = Store::open(&dir, &Options::default());
    assert!(matches!(refused, Err(OpenError::LostCommits { .. })));
    // Nothing was written over what may still be rescued.
    assert_eq!(fs::read(&log).unwrap(), bytes[..bytes.len() - 1000]);
    assert!(!dir.join("store.db.schema-1").exists());
    fs::write(&log, &bytes).unwrap();
    Store::open(&dir, &Options::default()).unwrap();
}

const CHILD: &str = "GPOOL_STORE_UPGRADE_CHILD";

/// Not a test of its own: what the child process of the test below does.
#[test]
fn child_upgrades() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    drop(Store::open(Path::new(&dir), &Options::default()).unwrap());
}

#[test]
fn killed_in_an_upgrade_it_is_the_old_layout_or_the_new() {
    const N_COMMITS: u64 = 8_000;
    let parent = tempfile::tempdir().unwrap();
    let (dir, old) = (parent.path().join("state"), parent.path().join("old"));
    old_store(&old, N_COMMITS);
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "upgrade::tests::child_upgrades"])
            .env(CHILD, &dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    copy_files(&old, &dir);
    let began = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = began.elapsed();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..16_u32 {
        copy_files(&old, &dir);
        let mut child = start();
        // Which moments these are does not matter: all of them are tried.
        std::thread::sleep(whole * round / 16 + Duration::from_millis(1));
        child.kill().unwrap();
        child.wait().unwrap();
        let is_kept = dir.join("store.db.schema-1").exists();
        let layout = layout_with(&dir, N_COMMITS);
        assert!(is_kept || layout == 1, "upgraded before the way back was there");
        seen.insert((layout, is_kept));
        drop(Store::open(&dir, &Options::default()).unwrap());
        assert_eq!(layout_with(&dir, N_COMMITS), SCHEMA);
        if is_kept {
            // Whole in any case: it has its name only when it is.
            assert_eq!(verify(&dir.join("store.db.schema-1")).unwrap().findings, []);
        }
    }
    eprintln!("found after kills: {seen:?}, of upgrades that take {whole:?}");
}
