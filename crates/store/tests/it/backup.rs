//! Backups show one point in time, and a restore never removes anything.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use gpool_model::Term;
use gpool_store::{
    BackupError, Blobs, Committer, Existing, Reader, RestoreError, backup, restore, verify,
};

use crate::support::{Mount, State, Truth, content, results};

#[test]
fn a_backup_under_load_is_of_one_moment() {
    let state = State::new();
    let (store, _) = state.open();
    let (on_done, told) = results();
    let committer = Committer::spawn(store, on_done).unwrap();
    let mut truth = Truth::default();
    let mut n_told = 0;
    for round in 0..5 {
        for _ in 0..200 {
            committer.submit(truth.next()).unwrap();
        }
        n_told += told.try_iter().count() as u64;
        let to = state.dir.with_file_name(format!("backup-{round}"));
        let made = backup(&state.dir, &to, &[]).unwrap();
        assert!(made.revision.0 >= n_told);
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(verify(&to).unwrap().findings, []);
        assert!(Truth::after(made.revision.0).is_read(&Reader::open(&to).unwrap()));
    }
    committer.close();
    let names: Vec<_> = fs::read_dir(state.dir.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("backup"))
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
}

#[test]
fn a_backup_overwrites_nothing() {
    let (state, _) = State::with_commits(3);
    let to = state.dir.with_file_name("backup");
    fs::write(&to, "mine").unwrap();
    assert!(matches!(backup(&state.dir, &to, &[]), Err(BackupError::Exists { .. })));
    assert_eq!(fs::read(&to).unwrap(), b"mine");
}

#[test]
fn a_backup_that_does_not_fit_leaves_nothing() {
    let Some(mount) = Mount::tmpfs("64k") else { return };
    let (state, _) = State::with_commits(300);
    let error = backup(&state.dir, &mount.dir.join("backup"), &[]).unwrap_err();
    assert!(error.to_string().contains("no space left"), "{error}");
    assert_eq!(fs::read_dir(&mount.dir).unwrap().count(), 0);
}

#[test]
fn a_restored_store_has_everything_and_a_higher_term() {
    let (state, mut truth) = State::with_commits(50);
    let blobs = Blobs::open(&state.dir).unwrap();
    let script = blobs.name(1000, b"#!/bin/sh\n");
    blobs.store(&script, b"#!/bin/sh\n", u64::MAX).unwrap();
    let to = state.dir.with_file_name("backup");
    assert_eq!(backup(&state.dir, &to, &[]).unwrap().n_blobs, 1);
    assert_eq!(verify(&to).unwrap().n_blobs, 1);

    let new = State::new();
    let restored = restore(&to, &new.dir, Existing::Refuse).unwrap();
    assert_eq!((restored.revision.0, restored.n_blobs), (50, 1));
    assert_eq!(restored.put_aside, None);
    assert_eq!(verify(&new.dir).unwrap().findings, []);
    assert_eq!(Blobs::open(&new.dir).unwrap().get(&script).unwrap(), b"#!/bin/sh\n");
    let (mut store, loaded) = new.open();
    assert!(truth.is_loaded(&loaded));
    assert!(loaded.fence > Term(1));
    assert_eq!(loaded.fence, restored.fence);
    let mut next = truth.next();
    next.fence = loaded.fence.next();
    store.commit(&[next]).unwrap();
    assert!(truth.is_read(&store.reader().unwrap()));
}

#[test]
fn a_store_in_use_or_in_the_way_is_not_replaced() {
    let (state, mut truth) = State::with_commits(10);
    let to = state.dir.with_file_name("backup");
    backup(&state.dir, &to, &[]).unwrap();
    let (mut store, _) = state.open();
    store.commit(&[truth.next()]).unwrap();
    for existing in [Existing::Refuse, Existing::PutAside] {
        let says = restore(&to, &state.dir, existing).unwrap_err().to_string();
        assert!(says.contains("in use"), "{says}");
    }
    drop(store);
    let before = content(&state.dir);
    let error = restore(&to, &state.dir, Existing::Refuse).unwrap_err();
    assert!(matches!(error, RestoreError::Exists { .. }), "{error}");
    assert_eq!(content(&state.dir), before);

    let restored = restore(&to, &state.dir, Existing::PutAside).unwrap();
    let aside = restored.put_aside.unwrap();
    assert_eq!(content(&aside), before);
    assert!(Truth::after(10).is_loaded(&state.open().1));
    // Files that were put aside can be restored in turn.
    let again = restore(&aside.join("store.db"), &state.dir, Existing::PutAside).unwrap();
    assert_ne!(again.put_aside.unwrap(), aside);
    assert!(truth.is_loaded(&state.open().1));
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let (state, _) = State::with_commits(300);
    let to = state.dir.with_file_name("backup");
    backup(&state.dir, &to, &[]).unwrap();
    let mut bytes = fs::read(&to).unwrap();
    // At every occurrence: free parts still have old content.
    let text = b"\"ended\":";
    for at in 0..bytes.len() - text.len() {
        if bytes[at..].starts_with(text) {
            bytes[at] ^= 1;
        }
    }
    fs::write(&to, bytes).unwrap();
    let before = content(&state.dir);
    let error = restore(&to, &state.dir, Existing::PutAside).unwrap_err();
    assert!(matches!(error, RestoreError::Damaged { .. }), "{error}");
    assert_eq!(content(&state.dir), before);
    assert!(restore(&state.dir, &state.dir, Existing::PutAside).is_err());
}

#[test]
fn advice_about_a_wrong_file_is_about_backups() {
    let (state, _) = State::with_commits(1);
    let to = state.dir.with_file_name("text");
    fs::write(&to, "no database\n".repeat(100)).unwrap();
    let refused = |from| restore(from, &state.dir, Existing::PutAside).unwrap_err().to_string();
    let missing = to.with_file_name("nofile");
    let says = refused(&missing);
    assert!(says.contains("there is no backup") && says.contains("`gpool backup FILE`"), "{says}");
    let short = to.with_file_name("short");
    fs::write(&short, "print(1)\n").unwrap();
    for from in [&to, &short, &state.dir] {
        let says = refused(from);
        assert!(says.contains("not a backup") && says.contains("`gpool backup`"), "{says}");
    }
}
