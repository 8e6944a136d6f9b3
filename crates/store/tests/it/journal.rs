//! Journal entries about one thing are found by reading a range of time.

use gpool_model::Timestamp;
use gpool_store::{JournalEntry, JournalSearch, Reader, Store};
use rusqlite::Connection;

use crate::support::{State, commit, entry};

/// A journal of `n` entries, each about one of a hundred jobs.
fn journal(n: u64) -> (State, Vec<JournalEntry>) {
    let state = State::new();
    let (mut store, _): (Store, _) = state.open();
    let rest = "x".repeat(300);
    let of = |seq: u64| entry(seq, &format!("{{\"job\":\"{}\",\"x\":\"{rest}\"}}", seq % 100));
    let all: Vec<JournalEntry> = (1..=n).map(of).collect();
    for (revision, part) in (1..).zip(all.chunks(1000)) {
        store.commit(&[commit(revision, vec![], part.to_vec(), vec![])]).unwrap();
    }
    (state, all)
}

fn search(since: u64, until: u64) -> JournalSearch<'static> {
    let moment = |seq: u64| Timestamp::new(1_700_000_000_000 + seq);
    let words = [&b"\"7\""[..], b"\"7#"];
    JournalSearch {
        since: moment(since),
        until: moment(until),
        words,
        limit: 1000,
        bytes_max: usize::MAX,
    }
}

fn seqs(reader: &Reader, what: &JournalSearch<'_>) -> Vec<u64> {
    reader.journal_about(what).unwrap().iter().map(|entry| entry.seq.0).collect()
}

#[test]
fn a_search_finds_exactly_the_matching_entries() {
    let (state, all) = journal(1000);
    let reader = Reader::open(&state.dir).unwrap();
    assert_eq!(seqs(&reader, &search(1, 1000)), (0..10).map(|n| n * 100 + 7).collect::<Vec<_>>());
    assert_eq!(seqs(&reader, &search(107, 307)), [107, 207, 307]);
    assert_eq!(seqs(&reader, &search(108, 206)), []);
    assert_eq!(seqs(&reader, &search(908, 5000)), []);
    assert_eq!(seqs(&reader, &JournalSearch { limit: 2, ..search(1, 1000) }), [7, 107]);
    let found = reader.journal_about(&search(1, 50)).unwrap();
    assert_eq!(found, all[6..7]);
    // A word does not match a longer one with the same beginning.
    let other = JournalSearch { words: [b"\"77\"", b"\"77#"], ..search(1, 100) };
    assert_eq!(seqs(&reader, &other), [77]);
}

#[test]
fn an_empty_journal_says_nothing() {
    let state = State::new();
    drop(state.open());
    assert_eq!(seqs(&Reader::open(&state.dir).unwrap(), &search(1, 1000)), []);
}

#[test]
fn an_entry_that_was_changed_is_not_believed() {
    let (state, _) = journal(300);
    let database = Connection::open(state.dir.join("store.db")).unwrap();
    let changed = "UPDATE journal SET body = CAST('{\"job\":\"7\"}' AS BLOB) WHERE seq = 107";
    database.execute_batch(changed).unwrap();
    let reader = Reader::open(&state.dir).unwrap();
    let error = reader.journal_about(&search(1, 300)).unwrap_err().to_string();
    assert!(error.contains("journal 107"), "{error}");
    assert_eq!(seqs(&reader, &search(150, 300)), [207]);
}
