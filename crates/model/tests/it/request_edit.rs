//! Tests of `request::edit`.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::exit::{Checkpoint, Exit};
use gpool_model::id::BlobId;
use gpool_model::{JobId, JobNumber, JobPatch, JobRequest, JobSpec, Owner, Timestamp};

#[test]
fn an_edit_replaces_the_exits() {
    let mut spec = JobSpec {
        id: JobId { number: JobNumber(1), element: None },
        owner: Owner { uid: 1000, gid: 1000, user: Arc::from("ana") },
        request: JobRequest::default(),
        script: None,
        context: BlobId(Arc::from("context")),
        setup: None,
        joins: None,
        retry_of: None,
        submitted_at: Timestamp::new(0),
    };
    let mut edit = |key: &str, change: fn(&mut JobRequest)| {
        spec = JobPatch::default().with(key, change).applied_to(&spec);
        spec.life.clone()
    };
    let life = edit("checkpoint", |to| to.life.checkpoint = Some(Checkpoint::default()).into());
    assert_eq!((life.preemptible, life.allows(Exit::Checkpoint)), (Some(true), true));
    let life = edit("exits", |to| to.life.exits = BTreeSet::from([Exit::Kill]).into());
    assert!(life.allows(Exit::Kill) && !life.allows(Exit::Checkpoint));
    let life = edit("preemptible", |to| to.life.preemptible = Some(false));
    assert!(life.allowed_exits().is_empty() && life.exits.is_empty());
    let life = edit("preemptible", |to| to.life.preemptible = Some(true));
    assert_eq!(life.allowed_exits(), BTreeSet::from([Exit::Requeue]));
}
