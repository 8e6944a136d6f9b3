//! Tests of the hints of reports.

use gpool_wire::Report;
use serde_json::json;

use crate::things;

/// The hints of a job with one GPU that ran for an hour.
fn hints(usage: &serde_json::Value) -> Vec<(String, Option<String>)> {
    hints_of("1", usage)
}

/// The hints of a job with this request that ran for an hour.
fn hints_of(gpus: &str, usage: &serde_json::Value) -> Vec<(String, Option<String>)> {
    let job = things::job(json!({
        "state": "succeeded", "gpus": gpus, "started_at": "2026-11-20T14:00:00Z",
        "ended_at": "2026-11-20T15:00:00Z", "time_limit": null, "usage": usage,
    }));
    let now = things::now();
    let hints = Report::new(job, now).hints;
    hints.into_iter().map(|hint| (hint.code, hint.flags)).collect()
}

#[test]
fn unused_gpu_memory_is_a_hint_unless_the_gpu_was_busy() {
    let usage = |gib: u64, busy: Option<f64>| {
        json!({
            "cpu_user_s": 1.0, "cpu_system_s": 0.0, "memory_peak": 1,
            "gpu_memory_peak": gib << 30, "gpu_memory_limit": 80_u64 << 30,
            "gpu_utilization": busy,
        })
    };
    let flags = Some("--gpu-memory 13G".to_owned());
    let unused = vec![("gpu_memory_unused".to_owned(), flags)];
    assert_eq!(hints(&usage(10, Some(0.3))), unused);
    assert_eq!(hints(&usage(10, None)), unused);
    assert_eq!(hints(&usage(10, Some(0.9))), []);
    assert_eq!(hints(&usage(60, Some(0.3))), []);
    assert_eq!(hints(&usage(60, Some(0.02))), [("gpus_idle".to_owned(), None)]);
    assert_eq!(hints(&usage(76, None)), [], "the whole GPU is all that it can get");
    let short = [("gpu_memory_short".to_owned(), None)];
    assert_eq!(hints_of("0.5", &usage(76, None)), short);
    assert_eq!(hints_of("0.5", &usage(76, Some(0.9))), short);
}
