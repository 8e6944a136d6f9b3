//! What a store holds is held against the invariants, not only against its checksums.

use std::sync::Arc;

use gpool_control::Control;
use gpool_journal::codec;
use gpool_journal::inspect;
use gpool_model::array::ArraySpec;
use gpool_model::job::{BlobId, Owner};
use gpool_model::{
    Caller, Command, Effect, Event, GpuRequest, JobNumber, JobRequest, Millis, NewJob, Policy,
    RequestId, Standing, Term, Timestamp,
};
use gpool_store::{Commit, ElementEntry, RecordChange, Store, StoreOptions};

fn held_job() -> NewJob {
    NewJob {
        context: BlobId(Arc::from("context")),
        request: JobRequest {
            name: Arc::from("job"),
            command: vec!["true".to_owned()],
            gpus: GpuRequest::whole(0),
            gpus_written: Arc::from("0"),
            grace: Millis::ZERO,
            standing: Standing { hold: true, ..Standing::default() }.into(),
            ..JobRequest::default()
        },
        ..NewJob::default()
    }
}

/// The commit of a server that has started and taken these jobs.
fn first_commit(jobs: Vec<NewJob>) -> Commit {
    let owner = Owner { uid: 0, gid: 0, user: Arc::from("root") };
    let events = [
        Event::ServerStarted { term: Term(1), n_skipped_jobs: 0 },
        Event::Requested {
            request: RequestId(1),
            caller: Caller::new(owner, true),
            command: Command::Submit {
                jobs,
                key: None,
                ends: vec![],
                array_ends: vec![],
                dry_run: false,
            },
        },
    ];
    let effects = Control::create(Policy::fair()).step(Timestamp::new(1), events);
    let commits = effects.into_iter().filter_map(|effect| match effect {
        Effect::Commit(commit) => Some(codec::encode(commit)),
        _ => None,
    });
    commits.last().expect("something changed")
}

#[test]
fn records_that_agree_are_found_to_and_half_a_job_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("state");
    let (mut store, _) = Store::open(&dir, &StoreOptions::default()).expect("a new store");
    let commit = first_commit(vec![held_job()]);
    let (fence, next) = (commit.fence, commit.revision.next());
    store.commit(&[commit]).expect("room");
    let reader = store.reader().expect("a reader");
    assert_eq!(inspect::contradictions(&reader), [""; 0]);
    let gone = RecordChange { kind: "job".to_owned(), key: "1".to_owned(), value: None };
    let (journal, archive) = (vec![], vec![]);
    let (elements, groups, records) = (vec![], vec![], vec![gone]);
    let half = Commit { fence, revision: next, records, journal, archive, elements, groups };
    store.commit(&[half]).expect("room");
    assert_eq!(inspect::contradictions(&reader), ["job 1 lacks one of its two records"]);
}

#[test]
fn records_for_several_threads_are_all_read() {
    const N_JOBS: usize = 4000;
    for wrong in [None, Some("1"), Some("4000")] {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("state");
        let (mut store, _) = Store::open(&dir, &StoreOptions::default()).expect("a new store");
        let mut commit = first_commit(vec![held_job(); N_JOBS]);
        let is_wrong = |it: &&mut RecordChange| it.kind == "job" && Some(&*it.key) == wrong;
        if let Some(record) = commit.records.iter_mut().find(is_wrong) {
            record.value = Some(b"{}".to_vec());
        }
        store.commit(&[commit]).expect("room");
        let found = inspect::contradictions(&store.reader().expect("a reader"));
        assert_eq!(found.len(), usize::from(wrong.is_some()), "{found:?}");
        let name = wrong.map(|key| format!("job {key:?}"));
        assert!(found.iter().zip(name).all(|(found, name)| found.contains(&name)), "{found:?}");
    }
}

fn entry(job: u64, element: u32, state: &str) -> ElementEntry {
    ElementEntry {
        job: JobNumber(job),
        element,
        attempt: 1,
        ended_at: Timestamp::new(2),
        state: state.to_owned(),
        body: b"{}".to_vec(),
    }
}

#[test]
fn elements_are_held_against_their_arrays() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("state");
    let (mut store, _) = Store::open(&dir, &StoreOptions::default()).expect("a new store");
    let spec =
        ArraySpec { indexes: "0-9".parse().expect("indexes"), values: None, objective: None };
    let commit = first_commit(vec![held_job().with(|it| it.array = Some(Box::new(spec)))]);
    let (fence, mut next) = (commit.fence, commit.revision.next());
    let is_job = |row: &&RecordChange| row.kind == "job";
    let record = commit.records.iter().find(is_job).expect("an array").clone();
    store.commit(&[commit]).expect("room");
    let reader = store.reader().expect("a reader");
    assert_eq!(inspect::contradictions(&reader), [""; 0]);
    let mut put = |records: Vec<RecordChange>, elements: Vec<ElementEntry>| {
        let (journal, archive, groups) = (vec![], vec![], vec![]);
        let commit = Commit { fence, revision: next, records, journal, archive, elements, groups };
        next = next.next();
        store.commit(&[commit]).expect("room");
    };
    // The array as it is once two of its elements have failed and one was cancelled.
    let mut value: serde_json::Value =
        serde_json::from_slice(record.value.as_deref().expect("its value")).expect("JSON");
    value["array"]["unstarted"] = "3-9".into();
    value["array"]["ended"] = serde_json::json!({"failed": "0-1", "cancelled": "2"});
    let value = Some(serde_json::to_vec(&value).expect("JSON"));
    put(vec![RecordChange { value, ..record }], vec![entry(1, 0, "failed")]);
    let one_is_missing = "array 1: 2 elements failed, and 1 found so";
    assert_eq!(inspect::contradictions(&reader), [one_is_missing]);
    put(vec![], vec![entry(1, 1, "failed")]);
    assert_eq!(inspect::contradictions(&reader), [""; 0]);
    put(vec![], vec![entry(1, 99, "failed"), entry(7, 0, "succeeded")]);
    let without_job = "elements of job 7 are archived, and it is not an array";
    let unknown = "element 1.99 is archived, and its array does not have it";
    assert_eq!(inspect::contradictions(&reader), [without_job, unknown]);
}
