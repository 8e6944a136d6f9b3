//! Tests of the hints of reports.

use gpool_cli::render::clock::Clock;
use gpool_cli::render::view::View;
use gpool_verbs::render::report::page;
use gpool_wire::{DeviceUse, NodeUse, Report};
use serde_json::json;

use crate::things;

/// The hints of a job with one GPU that ran for an hour.
fn hints(usage: &serde_json::Value) -> Vec<(String, Option<String>)> {
    hints_of("1", usage)
}

/// The hints of a job with this request that ran for an hour.
fn hints_of(gpus: &str, usage: &serde_json::Value) -> Vec<(String, Option<String>)> {
    let job = things::job(json!({
        "state": "succeeded", "request": {"gpus": gpus, "time": null},
        "run": {"started_at": "2026-11-20T14:00:00Z", "ended_at": "2026-11-20T15:00:00Z"},
        "usage": {"total": usage},
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

/// The report of a job with two GPUs on each of two nodes, and the use of each GPU.
fn report_of(used: [f64; 4]) -> Report {
    let job = things::job(json!({
        "state": "succeeded", "request": {"gpus": "2", "time": null},
        "run": {"started_at": "2026-11-20T14:00:00Z", "ended_at": "2026-11-20T15:00:00Z"},
    }));
    let nodes = ["lab1", "lab2"].iter().zip(used.chunks(2)).map(|(node, used)| NodeUse {
        node: (*node).to_owned(),
        gpu_hours: 2.0,
        gpu_utilization: Some((used[0] + used[1]) / 2.0),
        gpus: (0..)
            .zip(used)
            .map(|(index, busy)| DeviceUse {
                index,
                utilization: Some(*busy),
                memory_peak: Some(61 << 30),
            })
            .collect(),
    });
    let nodes: Vec<NodeUse> = nodes.collect();
    Report::new(job, things::now()).with_nodes(nodes)
}

#[test]
fn idle_gpus_beside_busy_ones_are_named() {
    let report = report_of([0.9, 0.8, 0.5, 0.02]);
    let hints: Vec<&str> = report.hints.iter().map(|hint| hint.text.as_str()).collect();
    assert_eq!(hints, ["1 of 4 GPUs were idle: lab2:1"]);
    assert_eq!(report_of([0.9, 0.8, 0.5, 0.2]).hints, []);
    assert_eq!(report_of([0.0; 4]).hints, [], "all of them are another hint");
}

#[test]
fn the_use_of_each_node_is_a_line() {
    let clock = Clock::new(true);
    let view = View { clock: &clock, now: things::now(), me: "ana" };
    let text = page(&report_of([0.9, 0.8, 0.5, 0.02]), &view);
    assert!(text.contains("lab1 busy 85 % · GPU 0: 90 %, at most 61 GiB · GPU 1: 80 %"), "{text}");
    assert!(text.contains("lab2 busy 26 % · GPU 0: 50 %"), "{text}");
    // The use of a single GPU is that of the job.
    let mut report = report_of([0.9, 0.8, 0.5, 0.02]);
    report.nodes.truncate(1);
    report.nodes[0].gpus.truncate(1);
    assert!(!page(&report, &view).contains("lab1 busy"));
}
