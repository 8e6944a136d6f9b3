//! Files of a store that are removed or replaced by hand.

use std::fs;

use gpool_store::{CommitError, Committer, OpenError, Store, StoreOptions};

use crate::support::{State, copy_store, results};

/// Runs a committer on a store, damages its folder, and returns the error of the next commit.
fn after(harm: impl FnOnce(&State)) -> (CommitError, State) {
    let (state, mut truth) = State::with_commits(5);
    let (store, _) = state.open();
    let presence = store.presence();
    let (on_done, told) = results();
    let committer = Committer::spawn(store, on_done).unwrap();
    committer.submit(truth.next()).unwrap();
    told.recv().unwrap().unwrap();
    assert_eq!(presence.check(), Ok(()));
    harm(&state);
    assert!(presence.check().is_err());
    committer.submit(truth.next()).unwrap();
    let error = told.recv().unwrap().unwrap_err();
    (error, state)
}

#[test]
fn a_commit_into_a_folder_that_was_removed_is_refused() {
    let (error, state) = after(|state| fs::remove_dir_all(&state.dir).unwrap());
    assert_eq!(error, CommitError::Replaced(state.dir.join("store.db")));
    assert!(error.to_string().contains("gpool restore"), "{error}");
}

#[test]
fn a_commit_is_refused_when_any_file_of_the_store_is_gone_or_another() {
    for name in ["store.db", "store.db-wal", "mark"] {
        let (error, state) = after(|state| fs::remove_file(state.dir.join(name)).unwrap());
        assert_eq!(error, CommitError::Replaced(state.dir.join(name)));
    }
    let (error, state) = after(|state| {
        let (older, _) = State::with_commits(3);
        fs::remove_dir_all(&state.dir).unwrap();
        copy_store(&older.dir, &state.dir);
    });
    assert_eq!(error, CommitError::Replaced(state.dir.join("store.db")));
}

#[test]
fn a_folder_that_comes_back_is_gone_on_with() {
    let (state, mut truth) = State::with_commits(5);
    let (store, _) = state.open();
    let (on_done, told) = results();
    let committer = Committer::spawn(store, on_done).unwrap();
    let elsewhere = state.dir.with_file_name("elsewhere");
    fs::rename(&state.dir, &elsewhere).unwrap();
    let next = truth.next();
    committer.submit(next.clone()).unwrap();
    assert!(matches!(told.recv().unwrap(), Err(CommitError::Replaced(_))));
    fs::rename(&elsewhere, &state.dir).unwrap();
    assert_eq!(committer.reset().unwrap().revision.0, 5, "nothing of it was written");
    committer.submit(next).unwrap();
    assert_eq!(told.recv().unwrap().map(|revision| revision.0), Ok(6));
}

#[test]
fn a_store_without_its_mark_and_log_is_no_new_one() {
    let state = State::new();
    let (mut store, _) = state.open();
    let mut truth = crate::support::Truth::default();
    for _ in 0..40 {
        store.commit(&[truth.next()]).unwrap();
    }
    // As after a kill: closing does not copy the log.
    let killed = State::new();
    copy_store(&state.dir, &killed.dir);
    drop(store);
    for name in ["mark", "store.db-wal"] {
        fs::remove_file(killed.dir.join(name)).unwrap();
    }
    let Err(error) = Store::open(&killed.dir, &StoreOptions::default()) else { panic!("opened") };
    assert!(matches!(error, OpenError::Mark { .. }), "{error}");
}
