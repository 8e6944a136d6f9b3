//! Blobs: stored bytes can be read and are stored once, each user has a limit, and only unused ones
//! are removed.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use gpool_store::{BlobError, BlobId, Blobs, PinEnd};

use crate::support::State;

const ANA: u32 = 1001;
const BO: u32 = 1002;
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const NO_LIMIT: u64 = u64::MAX;

fn file_of(state: &State, id: &BlobId) -> PathBuf {
    let (folder, name) = id.as_str().split_once('-').unwrap();
    state.dir.join("blobs").join(folder).join(name)
}

/// Stores bytes of a user as an accepted submission does.
fn put(blobs: &Blobs, owner: u32, bytes: &[u8]) -> BlobId {
    let id = blobs.name(owner, bytes);
    blobs.store(&id, bytes, NO_LIMIT).unwrap();
    blobs.unpin([&id], PinEnd::Used);
    id
}

fn make_older(path: &Path, age: Duration) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn stored_blobs_exist_after_reopening() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let bodies: Vec<Vec<u8>> = (0..50_u8).map(|n| vec![n; usize::from(n) * 100]).collect();
    let ids: Vec<BlobId> = bodies.iter().map(|body| put(&blobs, ANA, body)).collect();
    drop(blobs);
    let blobs = Blobs::open(&state.dir).unwrap();
    for (body, id) in bodies.iter().zip(&ids) {
        assert_eq!(id.owner(), ANA);
        assert_eq!(blobs.get(id).unwrap(), *body);
        assert_eq!(put(&blobs, ANA, body), *id);
        let mode = fs::metadata(file_of(&state, id)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(state.dir.join("blobs/tmp")).unwrap().count(), 0);
}

#[test]
fn a_known_blob_is_not_written_again_unless_its_file_is_gone() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let id = put(&blobs, ANA, b"once");
    let file = file_of(&state, &id);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let first = inode(&file);
    make_older(&file, DAY);
    put(&blobs, ANA, b"once");
    assert_eq!(inode(&file), first);
    let about = fs::metadata(&file).unwrap();
    assert!(about.modified().unwrap() > SystemTime::now() - HOUR, "its use is noted");
    // A job must never be accepted without its blob.
    fs::remove_dir_all(state.dir.join("blobs")).unwrap();
    put(&blobs, ANA, b"once");
    assert_eq!(blobs.get(&id).unwrap(), b"once");
    drop(blobs);
    assert_eq!(Blobs::open(&state.dir).unwrap().get(&id).unwrap(), b"once");
}

#[test]
fn a_state_folder_that_was_removed_is_not_made_again() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let id = put(&blobs, ANA, b"before");
    fs::remove_dir_all(&state.dir).unwrap();
    let other = blobs.name(ANA, b"after");
    assert!(blobs.store(&other, b"after", NO_LIMIT).is_err());
    assert!(blobs.store(&id, b"before", NO_LIMIT).is_err());
    assert!(!state.dir.exists());
}

#[test]
fn users_share_no_file_and_a_name_tells_nothing() {
    let (one, two) = (State::new(), State::new());
    let blobs = Blobs::open(&one.dir).unwrap();
    let (of_ana, of_bo) = (put(&blobs, ANA, b"TOKEN=1"), put(&blobs, BO, b"TOKEN=1"));
    assert_ne!(of_ana.as_str()[5..], of_bo.as_str()[5..]);
    assert_eq!(put(&blobs, ANA, b"TOKEN=1"), of_ana);
    assert_ne!(put(&Blobs::open(&two.dir).unwrap(), ANA, b"TOKEN=1"), of_ana);
}

#[test]
fn a_user_has_a_limit_in_blocks_of_the_disk() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let most = 3 * 4096;
    let put_within = |blobs: &Blobs, owner: u32, bytes: &[u8]| {
        let id = blobs.name(owner, bytes);
        let done = blobs.store(&id, bytes, most);
        let end = if done.is_ok() { PinEnd::Used } else { PinEnd::Refused };
        blobs.unpin(done.is_ok().then_some(&id), end);
        done
    };
    for small in ["one", "two", "three"] {
        put_within(&blobs, ANA, small.as_bytes()).unwrap();
    }
    let refused = put_within(&blobs, ANA, b"four").unwrap_err();
    let full = |error: &BlobError| {
        matches!(error, BlobError::TooMuch { n_kept: 12_288, n_more: 4096, most: 12_288 })
    };
    assert!(full(&refused), "{refused}");
    // Stored bytes cost nothing more, and another user has space.
    put_within(&blobs, ANA, b"two").unwrap();
    put_within(&blobs, BO, b"four").unwrap();
    // The limit applies after a restart too, and a removed file frees its bytes.
    drop(blobs);
    let blobs = Blobs::open(&state.dir).unwrap();
    assert!(full(&put_within(&blobs, ANA, b"four").unwrap_err()));
    let one = blobs.name(ANA, b"one");
    make_older(&file_of(&state, &one), 2 * DAY);
    assert_eq!(blobs.sweep(&HashSet::new(), DAY).unwrap().n_removed, 1);
    put_within(&blobs, ANA, b"four").unwrap();
}

#[test]
fn a_refused_request_leaves_nothing_unless_another_needs_it() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let id = blobs.name(ANA, b"refused");
    blobs.store(&id, b"refused", 4096).unwrap();
    blobs.unpin([&id], PinEnd::Refused);
    assert!(!file_of(&state, &id).exists());
    // Its bytes are free again, also after a failed write.
    blobs.store(&id, b"refused", 4096).unwrap();
    // A second request with the same bytes is on its way, and is accepted.
    blobs.store(&id, b"refused", 4096).unwrap();
    blobs.unpin([&id], PinEnd::Refused);
    assert!(blobs.has(&id));
    blobs.unpin([&id], PinEnd::Used);
    blobs.store(&id, b"refused", 4096).unwrap();
    blobs.unpin([&id], PinEnd::Refused);
    assert!(blobs.has(&id), "a job has it");
}

#[test]
fn a_blob_of_an_unanswered_request_survives_its_refused_repetition() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let id = blobs.name(ANA, b"environment");
    blobs.store(&id, b"environment", NO_LIMIT).unwrap();
    // The connection is lost; the server still carries out the command.
    blobs.unpin([&id], PinEnd::Unknown);
    // The client repeats the request under the same key and gets the existing job.
    blobs.store(&id, b"environment", NO_LIMIT).unwrap();
    blobs.unpin([&id], PinEnd::Refused);
    assert!(blobs.has(&id), "the job of the first request needs it");
}

/// One request is refused between the write of another one, with the same bytes, and its end.
#[test]
fn a_refused_request_does_not_remove_what_another_is_storing() {
    let state = State::new();
    let blobs = Arc::new(Blobs::open(&state.dir).unwrap());
    let id = blobs.name(ANA, b"stored twice");
    let (here, is_first) = (thread::current().id(), AtomicBool::new(true));
    let other = (Arc::clone(&blobs), id.clone());
    let _moments = fail::FailScenario::setup();
    fail::cfg_callback("store-blob-done", move || {
        // Other tests of this process pass here too.
        if thread::current().id() == here && is_first.swap(false, Ordering::Relaxed) {
            let (blobs, id) = &other;
            blobs.store(id, b"stored twice", NO_LIMIT).unwrap();
            blobs.unpin([id], PinEnd::Refused);
        }
    })
    .unwrap();
    blobs.store(&id, b"stored twice", NO_LIMIT).unwrap();
    assert!(blobs.has(&id));
    blobs.unpin([&id], PinEnd::Refused);
    assert!(!blobs.has(&id));
}

#[test]
fn damage_is_seen() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let id = put(&blobs, ANA, b"content");
    fs::write(file_of(&state, &id), b"Content").unwrap();
    assert!(matches!(blobs.get(&id), Err(BlobError::Damaged(_))));
    drop(blobs);
    fs::remove_file(state.dir.join("blobs/key")).unwrap();
    assert!(matches!(Blobs::open(&state.dir), Err(BlobError::Key { .. })));
}

#[test]
fn only_unused_old_blobs_are_removed() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let bodies = ["used", "old", "pinned", "put again", "lately"];
    let ids = bodies.map(|body| put(&blobs, ANA, body.as_bytes()));
    let used = HashSet::from([ids[0].clone()]);
    assert_eq!(blobs.sweep(&used, HOUR).unwrap().n_removed, 0, "all were put just now");
    for id in &ids[..4] {
        make_older(&file_of(&state, id), 2 * DAY);
    }
    blobs.pin([&ids[2]]).unwrap();
    make_older(&file_of(&state, &ids[2]), 2 * DAY);
    put(&blobs, ANA, b"put again");
    let swept = blobs.sweep(&used, DAY).unwrap();
    assert_eq!((swept.n_removed, swept.missing.len()), (1, 0));
    assert!(matches!(blobs.get(&ids[1]), Err(BlobError::Missing(_))));
    assert!(matches!(blobs.pin([&ids[0], &ids[1]]), Err(BlobError::Missing(_))));
    // The sweep recorded its use: after the last use it stays for the whole time.
    assert_eq!(blobs.sweep(&HashSet::new(), DAY).unwrap().n_removed, 0);
    blobs.unpin([&ids[2]], PinEnd::Unknown);
    make_older(&file_of(&state, &ids[2]), 2 * DAY);
    assert_eq!(blobs.sweep(&used, DAY).unwrap().n_removed, 1);
    // Removed bytes can be stored again.
    assert_eq!(put(&blobs, ANA, b"old"), ids[1]);
    assert_eq!(blobs.get(&ids[1]).unwrap(), b"old");
}

#[test]
fn a_blob_that_no_commit_named_is_removed_after_an_hour() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let id = blobs.name(ANA, b"orphan");
    blobs.store(&id, b"orphan", NO_LIMIT).unwrap();
    blobs.unpin([&id], PinEnd::Unknown);
    assert_eq!(blobs.sweep(&HashSet::new(), 7 * DAY).unwrap().n_removed, 0);
    make_older(&file_of(&state, &id), 2 * HOUR);
    assert_eq!(blobs.sweep(&HashSet::new(), 7 * DAY).unwrap().n_removed, 1);
    // After a crash it looks like the blob of an ended job, and is removed like one.
    blobs.store(&id, b"orphan", NO_LIMIT).unwrap();
    drop(blobs);
    let blobs = Blobs::open(&state.dir).unwrap();
    make_older(&file_of(&state, &id), 8 * DAY);
    assert_eq!(blobs.sweep(&HashSet::new(), 7 * DAY).unwrap().n_removed, 1);
}

#[test]
fn blobs_in_use_that_are_missing_are_reported() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let (gone, there) = (put(&blobs, ANA, b"gone"), put(&blobs, ANA, b"there"));
    fs::remove_file(file_of(&state, &gone)).unwrap();
    let used = HashSet::from([gone.clone(), there]);
    assert_eq!(blobs.sweep(&used, DAY).unwrap().missing, HashSet::from([gone]));
}

#[test]
fn many_threads_put_the_same() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let ids: HashSet<BlobId> = std::thread::scope(|scope| {
        let puts: Vec<_> = (0..8).map(|_| scope.spawn(|| put(&blobs, ANA, b"same"))).collect();
        puts.into_iter().map(|put| put.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1);
    assert_eq!(blobs.get(ids.iter().next().unwrap()).unwrap(), b"same");
    // It is counted once.
    let other = blobs.name(ANA, b"other");
    blobs.store(&other, b"other", 2 * 4096).unwrap();
}

#[test]
fn names_are_checked() {
    let good = "0123456789abcdef".repeat(4);
    for id in [format!("u1000-{good}"), format!("u0-{good}"), format!("u4294967295-{good}")] {
        assert_eq!(id.parse::<BlobId>().unwrap().as_str(), id);
    }
    let bad = [
        String::new(),
        "../../etc/passwd".to_owned(),
        good.clone(),
        format!("u1000-{}", &good[1..]),
        format!("u1000-{}", good.to_uppercase()),
        format!("u1000-{good}0"),
        format!("u-{good}"),
        format!("u01-{good}"),
        format!("u+1-{good}"),
        format!("u4294967296-{good}"),
        format!("1000-{good}"),
        format!("../u1-{good}"),
    ];
    for bad in bad {
        assert!(bad.parse::<BlobId>().is_err(), "{bad}");
    }
}
