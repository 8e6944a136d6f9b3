//! The journal is cut to the entries to keep, and the rest can still be verified.

use std::path::Path;

use gpool_model::Seq;
use gpool_store::{Committer, Existing, Reader, Store, StoreOptions, backup, restore, verify};
use rusqlite::Connection;

use crate::support::{Mount, State, Truth, results};

const KEEP: u64 = 100;

fn open(dir: &Path) -> Store {
    Store::open(dir, &StoreOptions { journal_keep: KEEP, ..StoreOptions::default() }).unwrap().0
}

/// A store after `n` commits, in groups as a server makes them, that keeps only the last entries.
fn pruned(n: u64) -> (State, Truth) {
    let state = State::new();
    let (on_done, told) = results();
    let committer = Committer::spawn(open(&state.dir), on_done).unwrap();
    let mut truth = Truth::default();
    for _ in 0..n {
        committer.submit(truth.next()).unwrap();
        told.recv().unwrap().unwrap();
    }
    committer.close();
    (state, truth)
}

/// Checks that the kept entries are the end of the journal.
fn check(dir: &Path, truth: &Truth) -> u64 {
    let report = verify(dir).unwrap();
    assert_eq!(report.findings, []);
    let journal = Reader::open(dir).unwrap().journal(Seq(1), u32::MAX).unwrap();
    assert_eq!(journal.len() as u64, report.n_journal);
    assert_eq!(journal, truth.journal[truth.journal.len() - journal.len()..]);
    report.n_journal
}

#[test]
fn old_entries_go_and_the_chain_holds() {
    let (state, mut truth) = pruned(1000);
    let n_kept = check(&state.dir, &truth);
    assert!((KEEP..KEEP * 2).contains(&n_kept), "{n_kept}");
    let reader = Reader::open(&state.dir).unwrap();
    let newest = reader.journal(Seq(truth.seq - 9), 5).unwrap();
    assert_eq!(newest, truth.journal[truth.journal.len() - 10..][..5]);
    drop(reader);
    // A server with a lower limit drops more, and one with a higher limit nothing.
    let mut store = open(&state.dir);
    store.commit(&[truth.next()]).unwrap();
    drop(store);
    let (mut store, loaded) = state.open();
    assert!(truth.is_loaded(&loaded));
    store.commit(&[truth.next()]).unwrap();
    store.prune();
    drop(store);
    assert!(check(&state.dir, &truth) >= n_kept);
    // A backup starts where the journal starts.
    let to = state.dir.with_file_name("backup");
    backup(&state.dir, &to, &[]).unwrap();
    assert_eq!(check(&to, &truth), check(&state.dir, &truth));
    let new = State::new();
    restore(&to, &new.dir, Existing::Refuse).unwrap();
    assert_eq!(check(&new.dir, &truth), check(&state.dir, &truth));
}

#[test]
fn a_bulk_is_dropped_a_part_at_a_time() {
    let state = State::new();
    let mut store = open(&state.dir);
    let mut truth = Truth::default();
    let commits: Vec<_> = (0..20_000).map(|_| truth.next()).collect();
    store.commit(&commits).unwrap();
    let mut left = truth.seq;
    for _ in 0..10 {
        store.prune();
        let now = verify(&state.dir).unwrap().n_journal;
        assert!(left - now <= 8192, "{now} of {left} are left");
        left = now;
    }
    assert_eq!(left, KEEP);
    drop(store);
    assert_eq!(check(&state.dir, &truth), KEEP);
}

#[test]
fn damage_at_the_start_is_seen() {
    for sql in [
        "UPDATE journal_start SET seq = seq - 1",
        "UPDATE journal_start SET seq = 0, chain = zeroblob(32)",
        "UPDATE journal_start SET chain = zeroblob(32)",
        "DELETE FROM journal_start",
        "DROP TABLE journal_start",
        "DELETE FROM journal WHERE seq = (SELECT min(seq) FROM journal)",
    ] {
        let (state, _) = pruned(500);
        assert!(verify(&state.dir).unwrap().is_sound());
        let connection = Connection::open(state.dir.join("store.db")).unwrap();
        connection.execute_batch(sql).unwrap();
        drop(connection);
        assert!(!verify(&state.dir).unwrap().is_sound(), "{sql}");
        let reader = Reader::open(&state.dir).unwrap();
        assert!(reader.journal(Seq(1), u32::MAX).is_err(), "{sql}");
    }
}

#[test]
fn a_mark_older_than_the_kept_journal_does_not_prevent_opening() {
    let (state, mut truth) = State::with_commits(20);
    let mark = std::fs::read(state.dir.join("mark")).unwrap();
    let mut store = open(&state.dir);
    let commits: Vec<_> = (0..1000).map(|_| truth.next()).collect();
    store.commit(&commits).unwrap();
    store.prune();
    drop(store);
    std::fs::write(state.dir.join("mark"), mark).unwrap();
    assert!(truth.is_loaded(&state.open().1));
}

#[test]
fn without_room_nothing_is_dropped_and_nothing_is_lost() {
    let Some(mount) = Mount::tmpfs("16m") else { return };
    let dir = mount.dir.join("state");
    let mut store = open(&dir);
    let mut truth = Truth::default();
    // The next commits are in the log alone, which has no space to grow then.
    store.commit(&[truth.next()]).unwrap();
    let commits: Vec<_> = (1..1000).map(|_| truth.next()).collect();
    store.commit(&commits).unwrap();
    let ballast = mount.dir.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    drop(file);
    store.prune();
    assert_eq!(check(&dir, &truth), truth.seq);
    std::fs::remove_file(&ballast).unwrap();
    let commits: Vec<_> = (0..9000).map(|_| truth.next()).collect();
    for group in commits.chunks(1000) {
        store.commit(group).unwrap();
        store.prune();
    }
    assert!(check(&dir, &truth) < truth.seq);
}
