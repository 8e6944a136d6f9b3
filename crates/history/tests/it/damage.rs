//! Files that are damaged, removed or not ours.

use std::fs;
use std::os::unix::fs::FileExt;

use gpool_history::{Error, History, Reader, Settings, Step};
use rusqlite::Connection;

use crate::support::{Place, append, minutes, settle, span, start, wave};

/// A store with three hours of values, two of them sealed, in one file without a log.
fn filled(place: &Place) {
    let mut history = place.open();
    for n in 0..180 {
        for device in ["gpu0", "gpu1"] {
            append(&mut history, start().after(n), device, wave(n));
        }
    }
    settle(&mut history, start().after(140));
}

#[test]
fn a_file_of_garbage_is_kept_aside_and_replaced() {
    for garbage in [vec![7; 5], vec![7; 50_000]] {
        let place = Place::new();
        fs::write(place.path(), &garbage).unwrap();
        let (mut history, recreated) = History::open(&place.path(), Settings::default()).unwrap();
        assert!(recreated.is_some());
        append(&mut history, start(), "gpu0", 0.5);
        assert_eq!(minutes(&history, "gpu0", 1), [Some(0.5)]);
        assert_eq!(fs::read(place.path().with_extension("db.damaged")).unwrap(), garbage);
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let place = Place::new();
    fs::write(place.path(), "").unwrap();
    append(&mut place.open(), start(), "gpu0", 0.5);
}

#[test]
fn files_of_others_are_refused_and_unchanged() {
    let place = Place::new();
    let foreign = Connection::open(place.path()).unwrap();
    foreign.execute_batch("PRAGMA application_id = 7; CREATE TABLE t (a)").unwrap();
    drop(foreign);
    let before = fs::read(place.path()).unwrap();
    let open = || History::open(&place.path(), Settings::default()).map(drop);
    assert!(matches!(open(), Err(Error::NotAHistory { .. })));
    assert_eq!(fs::read(place.path()).unwrap(), before);

    fs::remove_file(place.path()).unwrap();
    drop(place.open());
    Connection::open(place.path()).unwrap().pragma_update(None, "user_version", 2).unwrap();
    assert!(matches!(open(), Err(Error::OtherFormat { found: 2, .. })));

    fs::remove_file(place.path()).unwrap();
    fs::create_dir(place.path()).unwrap();
    assert!(matches!(open(), Err(Error::NotAHistory { .. })));
    let inside = place.path().join("x");
    fs::remove_dir(place.path()).unwrap();
    fs::write(place.path(), "a file in place of the folder").unwrap();
    assert!(matches!(History::open(&inside, Settings::default()), Err(Error::Io { .. })));
}

#[test]
fn a_removed_file_is_created_again() {
    let place = Place::new();
    let mut history = place.open();
    append(&mut history, start(), "gpu0", 0.5);
    fs::remove_file(place.path()).unwrap();
    let read = |step| history.reader().devices(&["gpu0"], &[], span(start(), 1), step);
    assert!(matches!(read(Step::MINUTE), Err(Error::Missing { .. })));
    let appended = append(&mut history, start().after(1), "gpu0", 0.7);
    assert!(appended.recreated.is_some());
    assert_eq!(minutes(&history, "gpu0", 2), [None, Some(0.7)]);
    assert_eq!(append(&mut history, start().after(2), "gpu0", 0.7).recreated, None);

    // The whole folder.
    fs::remove_dir_all(place.path().parent().unwrap()).unwrap();
    assert!(append(&mut history, start().after(3), "gpu0", 0.9).recreated.is_some());
    assert_eq!(minutes(&history, "gpu0", 4), [None, None, None, Some(0.9)]);
}

#[test]
fn a_reader_may_come_before_the_store() {
    let place = Place::new();
    let reader = Reader::new(&place.path());
    let read = || reader.devices(&["gpu0"], &[], span(start(), 1), Step::MINUTE);
    assert!(matches!(read(), Err(Error::Missing { .. })));
    let _history = place.open();
    assert!(read().is_ok());
}

#[test]
fn a_damaged_block_is_absent() {
    let place = Place::new();
    filled(&place);
    let other = Connection::open(place.path()).unwrap();
    let n = other.execute("UPDATE block SET data = x'0102030405'", []).unwrap();
    assert!(n > 0);
    drop(other);
    let mut history = place.open();
    let found = minutes(&history, "gpu0", 180);
    assert_eq!(found[..120], [None; 120]);
    assert!(found[120..].iter().all(Option::is_some));
    // Sealing into a damaged block replaces it.
    settle(&mut history, start().after(200));
    assert!(minutes(&history, "gpu0", 180)[120..].iter().all(Option::is_some));
}

#[test]
fn damage_anywhere_never_panics() {
    let sound = Place::new();
    filled(&sound);
    let bytes = fs::read(sound.path()).unwrap();
    // A page at a time, and single bytes in the first pages, which have the schema and the trees.
    let pages = (0..bytes.len()).step_by(8192).map(|at| (at, 8192));
    let single = (0..40_000).step_by(211).map(|at| (at, 1));
    for (at, length) in pages.chain(single) {
        let place = Place::new();
        fs::write(place.path(), &bytes).unwrap();
        let file = fs::OpenOptions::new().write(true).open(place.path()).unwrap();
        let length = length.min(bytes.len() - at);
        file.write_all_at(&vec![0xA5; length], at as u64).unwrap();
        drop(file);
        survives(&place);
    }
    for length in (1..bytes.len()).step_by(5000) {
        let place = Place::new();
        fs::write(place.path(), &bytes[..length]).unwrap();
        survives(&place);
    }
}

/// Opens, writes and reads. Each step may fail, but at the end there is a store that works.
fn survives(place: &Place) {
    let Ok((mut history, _)) = History::open(&place.path(), Settings::default()) else { return };
    for n in 200..203 {
        let minute = start().after(n);
        let samples = [crate::support::sample("gpu0", Some(0.5))];
        let batch = gpool_history::Batch { devices: &samples, ..Default::default() };
        let _ = history.append(minute, minute, &batch);
        let _ = history.maintain(start().after(n + 100));
        let series = gpool_history::DeviceSeries::ALL;
        for step in [Step::MINUTE, Step::HOUR] {
            let _ = history.reader().devices(&["gpu0"], &series, span(start(), 300), step);
        }
    }
}
