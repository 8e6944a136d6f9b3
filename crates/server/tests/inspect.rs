//! What a store holds is held against the invariants, not only against its checksums.

use std::sync::Arc;

use gpool_control::Control;
use gpool_model::job::{BlobId, Owner};
use gpool_model::{
    Caller, Command, Effect, Event, GpuRequest, Millis, NewJob, Policy, ProjectName, RequestId,
    Term, Timestamp,
};
use gpool_server::{codec, inspect};
use gpool_store::{Commit, Options, RecordChange, Store};

fn held_job() -> NewJob {
    NewJob {
        array: None,
        retry_of: None,
        name: Arc::from("job"),
        project: ProjectName::new("default"),
        command: vec!["true".to_owned()],
        script: None,
        context: BlobId(Arc::from("context")),
        directory: "/".to_owned(),
        stdin: None,
        stdout: None,
        stderr: None,
        pty: None,
        activate: Vec::new(),
        after_setup: false,
        gpus: GpuRequest::whole(0),
        gpus_written: Arc::from("0"),
        cpus: None,
        memory: None,
        time_limit: None,
        grace: Millis::ZERO,
        after: Vec::new(),
        priority: 0,
        note: None,
        notify: Vec::new(),
        hold: true,
        life: gpool_model::Life::default(),
        allow_unsatisfiable: false,
        compat: Vec::new(),
    }
}

/// The commit of a server that has started and taken one job.
fn first_commit() -> Commit {
    let owner = Owner { uid: 0, gid: 0, user: Arc::from("root") };
    let jobs = vec![held_job()];
    let events = [
        Event::ServerStarted { term: Term(1), n_skipped_jobs: 0 },
        Event::Requested {
            request: RequestId(1),
            caller: Caller { owner, admin: true },
            command: Command::Submit { jobs, key: None, ends: vec![], dry_run: false },
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
    let (mut store, _) = Store::open(&dir, &Options::default()).expect("a new store");
    let commit = first_commit();
    let (fence, next) = (commit.fence, commit.revision.next());
    store.commit(&[commit]).expect("room");
    let reader = store.reader().expect("a reader");
    assert_eq!(inspect::contradictions(&reader), [""; 0]);
    let gone = RecordChange { kind: "job".to_owned(), key: "1".to_owned(), value: None };
    let (journal, archive) = (vec![], vec![]);
    let half =
        Commit { fence, revision: next, records: vec![gone], journal, archive, elements: vec![] };
    store.commit(&[half]).expect("room");
    assert_eq!(inspect::contradictions(&reader), ["job 1 has only one of its two records"]);
}
