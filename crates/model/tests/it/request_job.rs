//! Tests of `request::job`.

use gpool_model::rare::Usual as _;
use gpool_model::request::job::{JobRequest, Standing};

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
    assert!(size <= 576, "{size} bytes");
}
