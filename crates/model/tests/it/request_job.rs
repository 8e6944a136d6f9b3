//! Tests of `request::job`.

use gpool_model::rare::Usual as _;
use gpool_model::request::job::{JobRequest, Standing};
use gpool_model::{GpuRequest, JobKind, Lack, Millis, NodeLack, NodeName};

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
    assert!(size <= 616, "{size} bytes");
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
