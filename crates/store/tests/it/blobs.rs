//! Blobs: what is put can be got, once stored costs nothing more, and only what is unused goes.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gpool_store::{BlobError, BlobId, Blobs};

use crate::support::State;

fn file_of(state: &State, id: &BlobId) -> PathBuf {
    let (folder, name) = id.as_str().split_at(2);
    state.dir.join("blobs").join(folder).join(name)
}

#[test]
fn what_is_put_is_there_after_reopening() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let bodies: Vec<Vec<u8>> = (0..50_u8).map(|n| vec![n; usize::from(n) * 100]).collect();
    let ids: Vec<BlobId> = bodies.iter().map(|body| blobs.put(body).unwrap()).collect();
    drop(blobs);
    let blobs = Blobs::open(&state.dir).unwrap();
    for (body, id) in bodies.iter().zip(&ids) {
        assert_eq!(blobs.get(id).unwrap(), *body);
        assert_eq!(blobs.put(body).unwrap(), *id);
        let mode = fs::metadata(file_of(&state, id)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(state.dir.join("blobs/tmp")).unwrap().count(), 0);
}

#[test]
fn a_known_blob_is_not_written_again() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let id = blobs.put(b"once").unwrap();
    fs::remove_file(file_of(&state, &id)).unwrap();
    assert_eq!(blobs.put(b"once").unwrap(), id);
    assert!(!file_of(&state, &id).exists());
    assert!(matches!(blobs.get(&id), Err(BlobError::Missing(_))));
}

#[test]
fn names_tell_nothing_without_the_key() {
    let (one, two) = (State::new(), State::new());
    let id = |state: &State| Blobs::open(&state.dir).unwrap().put(b"TOKEN=1").unwrap();
    assert_ne!(id(&one), id(&two));
}

#[test]
fn damage_is_seen() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let id = blobs.put(b"content").unwrap();
    fs::write(file_of(&state, &id), b"Content").unwrap();
    assert!(matches!(blobs.get(&id), Err(BlobError::Damaged(_))));
    drop(blobs);
    fs::remove_file(state.dir.join("blobs/key")).unwrap();
    assert!(matches!(Blobs::open(&state.dir), Err(BlobError::Key { .. })));
}

#[test]
fn only_what_is_unused_and_old_is_removed() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let ids: Vec<BlobId> =
        ["used", "old", "put again"].map(|body| blobs.put(body.as_bytes()).unwrap()).to_vec();
    let hour = Duration::from_hours(1);
    let used = HashSet::from([ids[0].clone()]);
    assert_eq!(blobs.retain(&used, hour).unwrap(), 0, "all were put just now");
    drop(blobs);
    for id in &ids {
        let file = fs::File::options().write(true).open(file_of(&state, id)).unwrap();
        file.set_modified(SystemTime::now() - 2 * hour).unwrap();
    }
    let blobs = Blobs::open(&state.dir).unwrap();
    blobs.put(b"put again").unwrap();
    assert_eq!(blobs.retain(&used, hour).unwrap(), 1);
    assert!(blobs.get(&ids[0]).is_ok() && blobs.get(&ids[2]).is_ok());
    assert!(matches!(blobs.get(&ids[1]), Err(BlobError::Missing(_))));
    // What was removed can be put again.
    assert_eq!(blobs.put(b"old").unwrap(), ids[1]);
    assert_eq!(blobs.get(&ids[1]).unwrap(), b"old");
}

#[test]
fn many_threads_put_the_same() {
    let state = State::new();
    let blobs = Blobs::open(&state.dir).unwrap();
    let ids: HashSet<BlobId> = std::thread::scope(|scope| {
        let puts: Vec<_> = (0..8).map(|_| scope.spawn(|| blobs.put(b"same").unwrap())).collect();
        puts.into_iter().map(|put| put.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1);
    assert_eq!(blobs.get(ids.iter().next().unwrap()).unwrap(), b"same");
}

#[test]
fn names_are_checked() {
    let good = "0123456789abcdef".repeat(4);
    assert_eq!(good.parse::<BlobId>().unwrap().as_str(), good);
    for bad in ["", "../../etc/passwd", &good[1..], &good.to_uppercase(), &format!("{good}0")] {
        assert!(bad.parse::<BlobId>().is_err(), "{bad}");
    }
}
