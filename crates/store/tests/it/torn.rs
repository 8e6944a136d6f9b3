//! Flips bits and cuts files, all over the first and the last 64 kB of the database and its log.
//! Data that can be opened and verified must be the committed data.

use std::fs;
use std::path::Path;

use gpool_store::{OpenError, Reader, Store, StoreOptions, verify};

use crate::support::{State, Truth, copy_store};

const STEP: usize = 512;
const REACH: usize = 64 << 10;

#[derive(Default, Debug)]
struct Tally {
    refused: u32,
    found: u32,
    harmless: u32,
}

/// Opens a damaged copy. Undetected wrong content fails the test.
fn judge(dir: &Path, truth: &Truth, case: &str, tally: &mut Tally) {
    let Ok((store, loaded)) = Store::open(dir, &StoreOptions::default()) else {
        tally.refused += 1;
        return;
    };
    // Decisions depend on records: opening alone must detect damage in them.
    assert!(truth.is_loaded(&loaded), "{case}: loaded something else, without a word");
    drop(store);
    match verify(dir) {
        Ok(report) if report.is_sound() => {
            let reader = Reader::open(dir).unwrap();
            assert!(truth.is_read(&reader), "{case}: verified something else");
            tally.harmless += 1;
        }
        _ => tally.found += 1,
    }
}

fn damage_everywhere(original: &Path, name: &str, truth: &Truth) -> Tally {
    let parent = tempfile::tempdir().unwrap();
    let bytes = fs::read(original.join(name)).unwrap();
    let mut tally = Tally::default();
    for offset in (0..bytes.len()).step_by(STEP) {
        if offset >= REACH && offset + REACH < bytes.len() {
            continue;
        }
        // A different byte and bit of each block, so that all fields of rows and pages are hit.
        let place = (offset + offset / STEP * 37 % STEP).min(bytes.len() - 1);
        let bit = offset / STEP % 8;
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << bit;
        for (kind, damaged) in [("flip", &flipped[..]), ("cut", &bytes[..offset])] {
            let dir = parent.path().join(format!("{kind}-{offset}"));
            copy_store(original, &dir);
            fs::write(dir.join(name), damaged).unwrap();
            let case = format!("{name}: {kind} at {place}, bit {bit}");
            judge(&dir, truth, &case, &mut tally);
            fs::remove_dir_all(&dir).unwrap();
        }
    }
    tally
}

#[test]
fn damage_of_the_database_is_never_silent() {
    let (state, truth) = State::with_commits(400);
    let tally = damage_everywhere(&state.dir, "store.db", &truth);
    eprintln!("database: {tally:?}");
    // If all damage were harmless, the test would damage nothing.
    assert!(tally.refused > tally.harmless, "{tally:?}");
}

#[test]
fn damage_of_the_log_is_never_silent() {
    let state = State::new();
    let copy = state.dir.with_file_name("killed");
    let mut truth = Truth::default();
    let (mut store, _) = state.open();
    for _ in 0..40 {
        store.commit(&[truth.next()]).unwrap();
    }
    // As after a kill: closing would copy the log into the database.
    copy_store(&state.dir, &copy);
    drop(store);
    let tally = damage_everywhere(&copy, "store.db-wal", &truth);
    eprintln!("log: {tally:?}");
    assert!(tally.refused > tally.harmless, "{tally:?}");
}

#[test]
fn a_lost_log_is_distinguished_from_other_damage_and_left_unchanged() {
    let state = State::new();
    let copy = state.dir.with_file_name("killed");
    let (mut store, _) = state.open();
    let mut truth = Truth::default();
    for _ in 0..10 {
        store.commit(&[truth.next()]).unwrap();
    }
    copy_store(&state.dir, &copy);
    let log = fs::read(copy.join("store.db-wal")).unwrap();
    fs::remove_file(copy.join("store.db-wal")).unwrap();
    match Store::open(&copy, &StoreOptions::default()) {
        Err(OpenError::LostCommits { found, committed, .. }) => {
            // The first commit is in the database itself, so that it never passes as new.
            assert_eq!((found.0, committed.0), (1, 10));
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened"),
    }
    // A log with a torn end is refused before the part in front of it is copied into the database,
    // so putting the end back helps.
    fs::write(copy.join("store.db-wal"), &log[..log.len() - 1000]).unwrap();
    assert!(matches!(
        Store::open(&copy, &StoreOptions::default()),
        Err(OpenError::LostCommits { .. })
    ));
    assert_eq!(fs::read(copy.join("store.db-wal")).unwrap(), log[..log.len() - 1000]);
    fs::write(copy.join("store.db-wal"), &log).unwrap();
    let (_store, loaded) = Store::open(&copy, &StoreOptions::default()).unwrap();
    assert!(truth.is_loaded(&loaded));
}
