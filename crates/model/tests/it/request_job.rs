//! Tests of `request::job`.

use gpool_model::rare::Usual as _;
use gpool_model::request::job::{JobRequest, Standing};
use gpool_model::{GpuRequest, JobKind, JobPart, Lack, MilliGpu, Millis, NodeLack, NodeName};

#[test]
fn the_default_request_is_empty() {
    let request: JobRequest = serde_json::from_str("{}").expect("every field has a default");
    assert_eq!(request, JobRequest::default());
    assert_eq!(*Standing::USUAL, Standing::default());
    assert!(request.gpus.is_none() && request.gang.is_single());
}

#[test]
fn a_job_spec_is_small() {
    let size = size_of::<gpool_model::JobSpec>();
    // Box fields that few jobs use.
    assert!(size <= 624, "{size} bytes");
}

#[test]
fn every_job_with_gpus_is_shown_as_idle_unless_it_asks_for_off() {
    let mut request = JobRequest::of_gpus(GpuRequest::whole(1));
    let usual = Some(JobKind::IDLE_AFTER);
    assert_eq!((request.idle_after(), request.shown_idle_after()), (None, usual));
    request.life.habits.idle_after = Some(Millis::ZERO);
    assert_eq!((request.idle_after(), request.shown_idle_after()), (None, None), "off");
    request.life.habits.idle_after = Some(Millis::from_mins(5));
    assert_eq!(request.idle_after(), request.shown_idle_after());
    assert_eq!(JobRequest::default().shown_idle_after(), None, "without GPUs");
}

#[test]
fn a_missing_path_of_an_earlier_store_is_read() {
    let read: NodeLack = serde_json::from_str(r#"{"node":"lab1","path":"/data"}"#).unwrap();
    let lack = NodeLack { node: NodeName::new("lab1"), lack: Lack::Path("/data".to_owned()) };
    assert_eq!(read, lack);
    let again: NodeLack = serde_json::from_str(&serde_json::to_string(&lack).unwrap()).unwrap();
    assert_eq!(again, lack);
    let cause = r#"{"path_missing":{"path":"/data"}}"#;
    let cause: gpool_model::job::EndCause = serde_json::from_str(cause).unwrap();
    assert_eq!(cause, gpool_model::job::EndCause::NodeLacks(lack.lack));
}

fn with_head() -> JobRequest {
    let parts = ["head:1xcpu,cpus=2", "worker:3xa100:2,mem=10G,tasks=2"];
    let mut request = JobRequest::default();
    request.set_parts(parts.map(|part| JobPart::parse(part).expect("a part")).to_vec());
    request
}

#[test]
fn parts_are_read_as_they_are_written() {
    for text in ["head:1xcpu", "a-1:2x8", "b:4xa100|h100:8,cpus=0.5,mem=100G,tasks=2", "c:1x0.5"] {
        assert_eq!(JobPart::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(JobPart::parse("head:cpu").unwrap().to_string(), "head:1xcpu");
    let wrong = [
        "",
        "head",
        ":1xcpu",
        "a b:1x1",
        "a:0x1",
        "a:1x1,cpus",
        "a:1x1,gpus=2",
        "a:1x1,tasks=0",
        "a:99999x1",
        "a:1x",
        "a:1x1,mem=none",
    ];
    for text in wrong {
        let why = JobPart::parse(text).expect_err(text).to_string();
        assert!(why.contains("no part of a job"), "{why}");
    }
}

#[test]
fn a_job_with_a_head_without_gpus_is_one_with_gpus() {
    let request = with_head();
    assert!(request.gpus.is_none() && request.has_gpus());
    assert_eq!((request.n_tasks(), request.gpus_together()), (7, MilliGpu::new(12_000)));
    assert_eq!(request.shown_idle_after(), Some(JobKind::IDLE_AFTER));
    assert_eq!(&*request.gpus_written, "1xcpu+3xa100:2");
    let places = [0, 1, 6].map(|rank| request.part_of(rank));
    assert_eq!(places, [Some((0, 0)), Some((1, 0)), Some((1, 5))]);
    assert_eq!(request.part_of(7), None);
    let worker = request.of_part(1);
    assert_eq!((worker.gpus.n_devices(), worker.n_tasks(), worker.has_parts()), (2, 6, false));
}
