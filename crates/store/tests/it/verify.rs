//! Damage that the checksum of a row can't show, and where `verify` reports it.

use gpool_model::Seq;
use gpool_store::{FindingKind, ReadError, Reader, Store, verify};
use rusqlite::Connection;

use crate::support::State;

#[test]
fn a_reader_tells_a_lost_entry_from_the_end() {
    for (lost, from) in [(17, 1), (17, 18), (300, 300), (300, 250)] {
        let (state, _) = State::with_commits(300);
        let connection = Connection::open(state.dir.join("store.db")).unwrap();
        connection.execute("DELETE FROM journal WHERE seq = ?1", [lost]).unwrap();
        let reader = Reader::open(&state.dir).unwrap();
        let read = reader.journal(Seq(from), 1000);
        assert!(matches!(read, Err(ReadError::Damaged(_))), "{lost} {from}");
    }
}

/// Changes the database directly; returns the error of opening it, and all findings.
fn after(sql: &str) -> (Option<String>, Vec<(FindingKind, String)>) {
    let (state, _) = State::with_commits(300);
    assert!(verify(&state.dir).unwrap().is_sound());
    let connection = Connection::open(state.dir.join("store.db")).unwrap();
    assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
    drop(connection);
    let report = verify(&state.dir).unwrap();
    let findings = report.findings.into_iter().map(|found| (found.kind, found.what)).collect();
    let opened = Store::open(&state.dir, &gpool_store::StoreOptions::default());
    (opened.err().map(|error| error.to_string()), findings)
}

#[test]
fn a_changed_record_is_named() {
    let (refusal, found) = after("UPDATE record SET value = x'00' WHERE key = '300'");
    let what = "record job/300 (revision 300): its checksum differs";
    assert!(refusal.unwrap().contains(what));
    assert_eq!(found, [(FindingKind::Record, what.to_owned())]);
}

#[test]
fn a_lost_record_is_seen() {
    let (refusal, found) = after("DELETE FROM record WHERE key = '300'");
    assert!(refusal.unwrap().contains("were committed"));
    assert!(matches!(&found[..], [(FindingKind::Record, _)]));
}

#[test]
fn records_with_each_others_content_are_seen() {
    let (refusal, found) = after(
        "UPDATE record SET (value, checksum, revision) = \
         (SELECT value, checksum, revision FROM record WHERE key = '299') WHERE key = '300'",
    );
    assert!(refusal.unwrap().contains("record job/300"));
    assert_eq!(found.len(), 2);
}

#[test]
fn an_edited_journal_is_seen() {
    let (refusal, found) = after("UPDATE journal SET body = x'00' WHERE seq = 17");
    // Old entries are verified only on request.
    assert_eq!(refusal, None);
    let what = "journal 17: the chain is broken here".to_owned();
    assert_eq!(found, [(FindingKind::Journal, what)]);

    let (refusal, found) = after("UPDATE journal SET body = x'00' WHERE seq = 299");
    assert!(refusal.unwrap().contains("journal 299"));
    assert_eq!(found.len(), 1);
}

#[test]
fn a_lost_journal_entry_is_seen() {
    let (_, found) = after("DELETE FROM journal WHERE seq = 17");
    assert!(found[0].1.contains("journal 17: missing"), "{found:?}");
    let (refusal, _) = after("DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)");
    assert!(refusal.unwrap().contains("journal: ends at"));
}

#[test]
fn a_changed_or_lost_ended_job_is_seen() {
    let (_, found) = after("UPDATE archive SET user = 'eve' WHERE job = 1");
    assert_eq!(found[0].1, "archive 1: its checksum differs");
    let (_, found) = after("DELETE FROM archive WHERE job = 1");
    assert!(matches!(&found[..], [(FindingKind::Archive, _)]), "{found:?}");
}

#[test]
fn a_changed_head_is_seen() {
    let (refusal, found) = after("UPDATE meta SET revision = 299");
    assert!(refusal.unwrap().contains("meta: its checksum differs"));
    assert!(matches!(&found[..], [(FindingKind::Meta, _)]), "{found:?}");
}

#[test]
fn a_store_in_use_verifies() {
    let (state, truth) = State::with_commits(30);
    let (store, _) = state.open();
    let report = verify(&state.dir).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(report.revision.0, 30);
    assert_eq!(report.n_records, truth.records.len() as u64);
    assert_eq!(report.n_journal, truth.seq);
    assert_eq!(report.n_archive, truth.archive.len() as u64);
    drop(store);
}
