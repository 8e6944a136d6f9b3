//! Objects and results on a disk.

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gpool_files::{ObjectId, ObjectStore, ResultKey, Results, StoreError};

const MOST: u64 = u64::MAX;

#[test]
fn a_user_gets_only_objects_that_it_sent() {
    let folder = tempfile::tempdir().unwrap();
    let store = ObjectStore::open(folder.path()).unwrap();
    let ids = store.put(1000, &[b"one", b"two"], MOST).unwrap();
    assert_eq!(ids, [ObjectId::of(b"one"), ObjectId::of(b"two")]);
    assert_eq!(store.get(1000, &ids[0]).unwrap(), b"one");
    assert!(matches!(store.get(1001, &ids[0]), Err(StoreError::Missing(_))));
    assert_eq!(store.missing(1001, ids.clone()).unwrap(), ids);
    assert!(store.missing(1000, ids.clone()).unwrap().is_empty());
    // Another run of the program finds them, and what a killed one left is gone.
    fs::write(folder.path().join("tmp/7"), "half").unwrap();
    drop(store);
    let store = ObjectStore::open(folder.path()).unwrap();
    assert!(store.missing(1000, ids).unwrap().is_empty());
    assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn a_damaged_object_counts_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let store = ObjectStore::open(folder.path()).unwrap();
    let id = store.put(7, &[b"one"], MOST).unwrap()[0];
    fs::write(store.path(7, &id), "two").unwrap();
    assert!(matches!(store.get(7, &id), Err(StoreError::Damaged(_))));
    assert_eq!(store.missing(7, [id]).unwrap(), [id]);
    store.put(7, &[b"one"], MOST).unwrap();
    fs::remove_file(store.path(7, &id)).unwrap();
    assert_eq!(store.missing(7, [id]).unwrap(), [id], "it was removed by hand");
}

#[test]
fn a_user_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let store = ObjectStore::open(folder.path()).unwrap();
    store.put(7, &[b"one"], 8192).unwrap();
    store.put(7, &[b"two"], 8192).unwrap();
    assert!(matches!(store.put(7, &[b"three"], 8192), Err(StoreError::TooMuch { .. })));
    store.put(7, &[b"one"], 8192).unwrap();
    store.put(8, &[b"three"], 8192).unwrap();
    assert_eq!(store.n_bytes(7), 8192);
}

#[test]
fn only_old_objects_that_nothing_needs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = ObjectStore::open(folder.path()).unwrap();
    let ids = store.put(7, &[b"one", b"two"], MOST).unwrap();
    assert_eq!(store.sweep(&HashSet::new(), Duration::from_secs(3600)).unwrap(), 0, "recent");
    assert_eq!(store.sweep(&HashSet::from([(7, ids[0])]), Duration::ZERO).unwrap(), 1);
    assert_eq!(store.missing(7, ids.clone()).unwrap(), [ids[1]]);
    store.put(7, &[b"two"], MOST).unwrap();
    store.trim(4096).unwrap();
    assert_eq!(store.missing(7, ids.clone()).unwrap(), [ids[0]], "the older one went first");
}

#[test]
fn results_of_the_last_attempt_count() {
    let folder = tempfile::tempdir().unwrap();
    let results = Results::open(folder.path()).unwrap();
    let key = |attempt, rank| ResultKey { job: "17.3".to_owned(), attempt, rank };
    let ids = [ObjectId::of(b"1"), ObjectId::of(b"2")];
    results.put(&key(2, 0), 7, ids[1]).unwrap();
    results.put(&key(1, 0), 7, ids[0]).unwrap();
    results.put(&key(1, 1), 7, ids[0]).unwrap();
    let found = results.of("17.3");
    assert_eq!((found[&0].manifest, found[&1].manifest), (ids[1], ids[0]));
    assert!(results.of("17").is_empty());
    assert!(results.of("../..").is_empty());
    assert_eq!(results.sweep(None).unwrap(), HashSet::from([(7, ids[0]), (7, ids[1])]));
    assert!(results.sweep(Some(Duration::ZERO)).unwrap().is_empty());
    assert!(results.of("17.3").is_empty());
}

#[test]
fn results_are_stored_while_empty_folders_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let results = Results::open(folder.path()).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                results.sweep(None).unwrap();
            }
        });
        let put = |number: u32| {
            let key = ResultKey { job: number.to_string(), attempt: 1, rank: 0 };
            results.put(&key, 7, ObjectId::of(b"manifest"))
        };
        let stored: Vec<bool> = (1..300).map(|number| put(number).is_ok()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(stored.into_iter().all(|it| it));
    });
    assert_eq!(results.of("299").len(), 1);
}
