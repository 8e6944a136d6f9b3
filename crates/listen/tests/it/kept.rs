//! What earlier layouts hold can still be read, and nothing of it is dropped on the way.

use std::collections::BTreeSet;

use gpool_journal::codec;
use gpool_model::record::{EndedJob, Record, RecordKind};
use gpool_model::{JobNumber, Revision, Timestamp};
use serde_json::Value;

/// As gpool 0.1.0 wrote them: a line each, with the kind, the key and the value.
const LAYOUT_1: &str = include_str!("../kept/layout-1.jsonl");

/// Kinds that there were not yet in 0.1.0, as they were first written.
const LATER: &str = include_str!("../kept/later.jsonl");

struct Kept {
    kind: String,
    key: String,
    value: Value,
}

fn kept(text: &str) -> Vec<Kept> {
    let field = |line: &Value, name: &str| line[name].as_str().expect("it is a text").to_owned();
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON"));
    let kept = lines.map(|mut line: Value| Kept {
        kind: field(&line, "kind"),
        key: field(&line, "key"),
        value: line["value"].take(),
    });
    kept.collect()
}

fn decode(kept: &Kept, value: &Value) -> Result<Record, codec::DecodeError> {
    codec::decode(&gpool_store::Record {
        kind: kept.kind.clone(),
        key: kept.key.clone(),
        revision: Revision(1),
        value: value.to_string().into_bytes(),
    })
}

fn decode_ended(kept: &Kept, value: &Value) -> Result<EndedJob, codec::DecodeError> {
    codec::decode_ended(&gpool_store::ArchiveEntry {
        job: JobNumber(kept.key.parse().expect("it is a number")),
        ended_at: Timestamp::ZERO,
        user: String::new(),
        project: String::new(),
        name: String::new(),
        state: String::new(),
        body: value.to_string().into_bytes(),
    })
}

/// Reads a value as this version does, and gives it as this version would write it.
fn there_and_back(kept: &Kept, value: &Value) -> Value {
    let written = if kept.kind == "ended" {
        decode_ended(kept, value).map(serde_json::to_value)
    } else {
        decode(kept, value).map(|record| {
            assert_eq!(record.key().key, kept.key);
            serde_json::to_value(record)
        })
    };
    written.unwrap_or_else(|error| panic!("{error}")).expect("the model can be written")
}

/// What `old` says and `new` does not; what `new` says beyond it is no loss.
fn lost(at: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, value) in old {
                lost(&format!("{at}.{name}"), value, &new[name.as_str()], found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (ix, (old, new)) in old.iter().zip(new).enumerate() {
                lost(&format!("{at}[{ix}]"), old, new, found);
            }
        }
        _ if old == new => {}
        _ => found.push(format!("{at}: {old} became {new}")),
    }
}

#[test]
fn every_kind_is_read_as_it_was_first_written_and_nothing_is_dropped() {
    let all: Vec<Kept> = kept(LAYOUT_1).into_iter().chain(kept(LATER)).collect();
    let kinds: BTreeSet<&str> = all.iter().map(|kept| kept.kind.as_str()).collect();
    for kind in RecordKind::ALL.map(RecordKind::as_str).into_iter().chain(["ended"]) {
        assert!(kinds.contains(kind), "nothing is kept of {kind}");
    }
    let mut found = Vec::new();
    for kept in &all {
        let written = there_and_back(kept, &kept.value);
        lost(&format!("{} {}", kept.kind, kept.key), &kept.value, &written, &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// So that a gpool reads what a later one of the same layout added to; see `codec`.
#[test]
fn a_field_that_is_not_known_is_passed_over() {
    for kept in kept(LAYOUT_1) {
        let before = there_and_back(&kept, &kept.value);
        let mut more = kept.value.clone();
        more["added_later"] = Value::from(1);
        if kept.kind == "policy" {
            decode(&kept, &more).expect_err("half a policy is another policy");
            continue;
        }
        assert_eq!(there_and_back(&kept, &more), before, "{} {}", kept.kind, kept.key);
    }
}

#[test]
fn what_can_not_be_understood_is_refused_by_name() {
    for kept in kept(LAYOUT_1).iter().filter(|kept| kept.kind == "job") {
        let mut later = kept.value.clone();
        later["phase"] = serde_json::json!({"hibernated": {}});
        let error = decode(kept, &later).expect_err("there is no such phase");
        assert!(error.to_string().contains(&format!("job {:?}", kept.key)), "{error}");
    }
    let unknown = Kept { kind: "dream".to_owned(), key: "1".to_owned(), value: Value::Null };
    let error = decode(&unknown, &Value::Null).expect_err("there is no such kind");
    assert!(error.to_string().contains("dream"), "{error}");
}
