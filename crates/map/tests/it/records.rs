//! Tests of `records`.

use gpool_map::ledger::{Ledger, Verdict};
use gpool_map::records::{Record, RecordState, Records};

fn failed(id: u64, tries: u32) -> Record {
    Record { tries: Some(tries), ..Record::new(id, RecordState::Failed) }
}

#[test]
fn records_are_restored_without_a_line_that_was_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("records.jsonl");
    let mut ledger = Ledger::new(6, 3);
    let mut records = Records::open(&path, &mut ledger).expect("records");
    let lines = [
        Record::new(0, RecordState::Done),
        failed(1, 2),
        Record::new(2, RecordState::SetAside),
        Record::new(3, RecordState::SetAside),
        Record::new(3, RecordState::Again),
        Record::new(4, RecordState::Done),
    ];
    records.append(&lines).expect("stored");
    drop(records);
    let whole = std::fs::read(&path).expect("the file");
    std::fs::write(&path, &whole[..whole.len() - 3]).expect("cut");
    let mut ledger = Ledger::new(6, 3);
    let mut records = Records::open(&path, &mut ledger).expect("records");
    assert_eq!((ledger.n_done(), ledger.set_aside().len()), (1, 1));
    assert_eq!(ledger.lease("a", 9), [1, 3, 4, 5]);
    assert_eq!(ledger.failed("a", 1), Verdict::SetAside(3));
    assert_eq!(ledger.failed("a", 3), Verdict::Again(1));
    records.append(&[Record::new(5, RecordState::Done)]).expect("stored");
    let mut ledger = Ledger::new(6, 3);
    drop(Records::open(&path, &mut ledger).expect("records"));
    assert_eq!(ledger.n_done(), 2);
}

#[test]
fn a_damaged_line_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("records.jsonl");
    std::fs::write(&path, "{\"id\": 0, \"state\": \"done\"}\nnonsense\n").expect("written");
    assert!(Records::open(&path, &mut Ledger::new(2, 3)).is_err());
}
