//! The JSON of a job in each state of its life.

use std::sync::Arc;

use gpool_model::job::{BlobId, EndCause, ExitStatus, GpuUsage, Holder, Usage};
use gpool_model::{
    Allocation, AllocationState, Attempt, Bytes, DeviceUuid, Generation, GpuRequest, Job, JobEnd,
    JobId, JobRequest, JobSpec, Lack, Millis, NodeLack, NodeName, Outcome, Owner, Phase, Reason,
    Resources, Slot, SlotPart, TaskId, Timestamp, Version,
};
use gpool_wire::show::JobFacts;
use gpool_wire::{Document, List};
use serde_json::{Value, json};

const T0: Timestamp = Timestamp::new(1_795_188_600_000);

fn spec() -> JobSpec {
    JobSpec {
        retry_of: None,
        joins: None,
        id: JobId::single(7),
        owner: Owner { uid: 1000, gid: 1000, user: "ana".into() },
        script: None,
        context: BlobId("c0ffee".into()),
        setup: None,
        submitted_at: T0,
        request: JobRequest {
            name: "train".into(),
            command: vec!["python".to_owned(), "x.py".to_owned()],
            directory: "/home/ana".to_owned(),
            gpus: GpuRequest::parse("a100:1").unwrap(),
            gpus_written: Arc::from("A100"),
            memory: Some(Bytes::from_gib(2)),
            time_limit: Some(Millis::from_mins(90)),
            grace: Millis::from_secs(30),
            ..JobRequest::default()
        },
    }
}

fn job(phase: Phase) -> Job {
    Job {
        array: None,
        id: JobId::single(7),
        version: Version(2),
        priority: 0,
        note: None,
        notify: Vec::new(),
        attempt: Attempt::FIRST,
        generation: Generation(1),
        waited: Millis::ZERO,
        course: gpool_model::Rare::default(),
        phase,
    }
}

fn allocation() -> Allocation {
    let slot = Slot { index: 3, device: DeviceUuid::new("GPU-3"), part: SlotPart::Whole };
    Allocation {
        task: TaskId { job: JobId::single(7), attempt: Attempt::FIRST, rank: 0 },
        node: NodeName::new("lab1"),
        slots: vec![slot],
        resources: Resources::none(),
        state: AllocationState::Running,
    }
}

fn shown(phase: Phase, reasons: Vec<Reason>) -> Value {
    let shown = JobFacts { reasons, ..JobFacts::default() };
    let job = gpool_wire::Job::new(&spec(), &job(phase), T0.after(Millis::from_secs(60)), &shown);
    let document = serde_json::to_value(Document::new(&job)).unwrap();
    let read: Document<gpool_wire::Job> = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(read.body, job, "it reads what it writes");
    document
}

/// A value of a group has the name of the group before its own: `run.attempt`.
fn has(document: &Value, expected: &Value) {
    for (key, value) in expected.as_object().unwrap() {
        let found = key.split('.').fold(document, |found, name| &found[name]);
        assert_eq!(found, value, "{key}");
    }
}

#[test]
fn a_job_has_the_keys_that_scripts_rely_on() {
    let reason = Reason::GpusNotFree { need: 1, free: 0, of_instances: false };
    let pending = shown(Phase::Pending { since: T0 }, vec![reason]);
    has(
        &pending,
        &json!({
            "apiVersion": "gpool/v1", "id": "7", "name": "train", "user": "ana",
            "project": "default", "state": "pending", "version": 2,
            "submitted_at": "2026-11-20T15:30:00.000Z", "request.gpus": "A100",
            "request.mem": 2_147_483_648_u64, "request.time": 5400.0, "placement": [],
            "run.attempt": 1, "run.exit_code": null, "forecast": {}, "wait.waited_s": 60.0,
            "wait.reasons": [{
                "code": "gpus_not_free", "need": 1, "free": 0, "blocking": true,
                "text": "It needs 1 GPU, and none is free",
            }],
        }),
    );
}

#[test]
fn a_job_shows_where_it_runs_and_how_it_ended() {
    let started_at = T0.after(Millis::from_secs(5));
    let running = shown(Phase::Running { allocations: vec![allocation()], started_at }, vec![]);
    has(
        &running,
        &json!({
            "state": "running", "run.started_at": "2026-11-20T15:30:05.000Z", "wait.waited_s": 5.0,
            "placement": [{"node": "lab1", "devices": [3], "uuids": ["GPU-3"]}],
        }),
    );
    let end = whole_end(started_at);
    let ended = shown(Phase::Ended(Box::new(end)), vec![]);
    has(
        &ended,
        &json!({
            "state": "failed", "run.exit_code": 137, "run.signal": 9, "run.cause": "oom",
            "usage.total": {
                "cpu_user_s": 1.5, "cpu_system_s": 0.0, "memory_peak": 5,
                "memory_peak_together": 9, "read_bytes": 11,
                "gpu_memory_peak": 7, "gpu_memory_limit": 20, "gpu_utilization": 0.25,
                "objective": 0.1,
            },
            "placement": [{"node": "lab1", "devices": [3], "uuids": ["GPU-3"]}],
        }),
    );
    let held = shown(Phase::Held { by: Holder::Admin, since: T0, missing: None }, vec![]);
    has(&held, &json!({"state": "held", "wait.held_by": "admin"}));
}

#[test]
fn a_request_is_read_although_a_newer_server_added_a_field() {
    let mut document = shown(Phase::Pending { since: T0 }, vec![]);
    document["request"]["of_tomorrow"] = json!(1);
    let read: Document<gpool_wire::Job> = serde_json::from_value(document).unwrap();
    assert_eq!(read.body.request.gpus_text(), "A100");
}

#[test]
fn nothing_inherited_is_ever_shown() {
    let text = shown(Phase::Pending { since: T0 }, vec![]).to_string();
    assert!(!text.contains("c0ffee"), "{text}");
}

/// An end with usage of everything.
fn whole_end(started_at: Timestamp) -> JobEnd {
    JobEnd {
        outcome: Outcome::Failed,
        cause: Some(EndCause::Oom),
        exit: Some(ExitStatus::Signal(9)),
        started_at: Some(started_at),
        ended_at: T0.after(Millis::from_secs(10)),
        usage: Usage {
            cpu_user: Millis::new(1500),
            cpu_system: Millis::ZERO,
            memory_peak: Bytes::new(5),
            memory_peak_together: Some(Bytes::new(9)),
            read: Some(Bytes::new(11)),
            written: None,
            gpu: Some(GpuUsage {
                memory_peak: Bytes::new(7),
                memory_limit: Bytes::new(20),
                busy: Millis::from_secs(1),
                measured: Millis::from_secs(4),
            }),
            objective: gpool_model::MetricValue::parse("0.1"),
        },
        allocations: vec![allocation()],
        resized: 0,
        steps: gpool_model::Rare::default(),
    }
}

#[test]
fn another_users_job_keeps_its_secrets() {
    let shown = JobFacts { private: true, ..JobFacts::default() };
    let mut spec = JobSpec { script: Some(BlobId("5c417".into())), ..spec() };
    spec.request.name = "merger".into();
    let job = gpool_wire::Job::new(&spec, &job(Phase::Pending { since: T0 }), T0, &shown);
    let text = serde_json::to_string(&job).unwrap();
    assert!(
        ["merger", "x.py", "/home", "5c417"].iter().all(|secret| !text.contains(secret)),
        "{text}"
    );
    assert!(job.request.script.is_some());
    assert_eq!((job.name.as_str(), job.request.command.len()), ("(private)", 0));
    assert_eq!((job.request.directory, job.request.note, job.user.as_str()), (None, None, "ana"));
    let ended = self::job(Phase::Ended(Box::new(whole_end(T0))));
    let job = gpool_wire::Job::new(&spec, &ended, T0, &shown);
    assert_eq!(job.usage.total.unwrap().objective, None);
}

#[test]
fn a_list_is_one_document() {
    let mut list = List::new(vec![1, 2]);
    assert_eq!(
        serde_json::to_value(&list).unwrap(),
        json!({"apiVersion": "gpool/v1", "items": [1, 2]})
    );
    list.next_cursor = Some("x".to_owned());
    let text = serde_json::to_string(&list).unwrap();
    assert_eq!(serde_json::from_str::<List<i32>>(&text).unwrap(), list);
}

#[test]
fn another_user_does_not_see_the_file_that_a_job_needs() {
    let missing = Reason::NodeLacks {
        lack: NodeLack {
            node: gpool_model::NodeName::new("lab1"),
            lack: Lack::Path("/home/ana/secret".to_owned()),
        },
        held_since: Some(T0),
    };
    let reason = gpool_wire::Reason::new(&missing, true).for_stranger();
    let json = serde_json::to_string(&reason).unwrap();
    assert!(!json.contains("secret") && json.contains("node_lacks"), "{json}");
}
