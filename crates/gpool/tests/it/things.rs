//! Jobs, devices and nodes to render, as the API would send them.

use gpool_wire::{Gpu, Job, Node, Recovery, Status, Time, Why};
use serde_json::{Value, json};

/// The time at which all of them are rendered.
pub fn now() -> Time {
    "2026-11-20T14:50:00Z".parse().unwrap()
}

/// A text with control sequences, which names must never pass to a terminal.
pub const NASTY: &str = "evil\n\u{1b}[31m\u{1b}]0;title\u{7}\u{9b}2J\u{202e}gpj\u{200b}\r";

/// A job; `changes` sets other fields.
pub fn job(changes: Value) -> Job {
    let mut job = json!({
        "id": "1844", "name": "big", "user": "ana", "project": "nlp", "state": "pending",
        "submitted_at": "2026-11-20T14:36:00Z", "version": 1,
        "request": {"command": ["python", "train.py"], "directory": "/home/ana", "gpus": "4",
                    "priority": 0, "time": 43200.0, "grace": 30.0},
        "placement": [], "run": {"attempt": 1}, "wait": {"waited_s": 840.0},
    });
    merge(&mut job, changes);
    serde_json::from_value(job).unwrap()
}

/// Jobs in every situation that a list shows differently.
pub fn jobs() -> Vec<Job> {
    vec![
        job(json!({
            "id": "1836", "name": "jup", "user": "bo", "request": {"gpus": "1"}, "state": "running",
            "run": {"started_at": "2026-11-20T11:48:00Z"},
            "placement": [{"node": "lab1", "devices": [2], "uuids": ["GPU-2"]}],
        })),
        job(json!({
            "id": "1843", "name": "train", "state": "running",
            "request": {"gpus": "2", "time": null}, "run": {"started_at": "2026-11-20T14:35:00Z"},
            "placement": [{"node": "lab1", "devices": [4, 5], "uuids": ["GPU-4", "GPU-5"]}],
        })),
        job(json!({
            "wait": {"reasons": [
                {"code": "gpus_not_free_together", "blocking": true, "need": 4, "free": 2,
                 "node": "lab1",
                 "text": "It needs 4 GPUs on one node, and no node has more than 2 free"},
                {"code": "ahead_in_order", "blocking": true, "job": "1841", "n_ahead": 1,
                 "text": "Job 1841 is before it in the queue"},
            ]},
        })),
        job(json!({
            "id": "1846", "name": "after-big", "state": "waiting", "request": {"gpus": "1"},
            "wait": {"reasons": [{"code": "waits_for_job", "blocking": true, "job": "1844",
                                  "text": "It waits for job 1844 to end"}]},
        })),
        job(json!({
            "id": "1830", "name": "old", "state": "timed_out",
            "run": {"started_at": "2026-11-19T10:00:00Z", "ended_at": "2026-11-19T22:00:00Z",
                    "exit_code": 143, "signal": 15, "cause": "time_limit",
                    "cause_text": "it reached its time limit"},
        })),
        job(json!({
            "id": "1829", "name": "crash", "state": "failed",
            "run": {"started_at": "2026-11-19T10:00:00Z", "ended_at": "2026-11-19T10:00:07Z",
                    "exit_code": 139, "signal": 11},
            "usage": {"total": {"cpu_user_s": 3.5, "cpu_system_s": 0.25,
                                "memory_peak": 1_073_741_824u64}},
        })),
    ]
}

/// A device; `changes` sets other fields.
pub fn gpu(index: u32, changes: Value) -> Gpu {
    let mut gpu = json!({
        "node": "lab1", "index": index, "uuid": format!("GPU-{index}"),
        "model": "NVIDIA A100-SXM4-80GB", "model_short": "A100-80G", "state": "free",
        "memory_total": 85_899_345_920u64, "memory_used": 0, "memory_free": 85_899_345_920u64,
        "utilization": 0.0, "temperature_c": 40, "power_w": 60.0,
        "pci_bus": format!("00000000:0{index}:00.0"), "minor": index, "numa": 0, "links": {},
        "mig": null, "health_why": null, "allowed": true, "job": null, "user": null,
        "project": null, "unmanaged": [],
    });
    merge(&mut gpu, changes);
    serde_json::from_value(gpu).unwrap()
}

/// Devices in every state that a list shows differently.
pub fn gpus() -> Vec<Gpu> {
    let busy = json!({
        "state": "busy", "job": "1839", "user": "ana", "project": "vision",
        "utilization": 0.91, "memory_used": 51_539_607_552u64,
    });
    let unmanaged = json!({
        "state": "unmanaged", "utilization": 0.69, "memory_used": 65_712_999_628u64,
        "unmanaged": [{"pid": 41822, "user": "eve", "name": "python",
                       "memory": 65_712_999_628u64, "seen_since": "2026-11-20T10:50:00Z"}],
    });
    let lost = json!({
        "state": "lost", "health_why": "the GPU has fallen off the bus", "memory_used": null,
        "utilization": null,
    });
    vec![
        gpu(0, busy),
        gpu(1, json!({})),
        gpu(2, lost),
        gpu(3, unmanaged),
        gpu(4, json!({})),
        gpu(5, json!({})),
        gpu(6, json!({"state": "not_allowed", "allowed": false})),
        gpu(7, json!({})),
    ]
}

/// A node; `changes` sets other fields.
pub fn node(changes: Value) -> Node {
    let mut node = json!({
        "name": "lab1", "pool": "default", "connected": true, "version": "0.1.0",
        "system": "Debian 12", "devices_from": "NVIDIA 570.124", "n_gpus": 8, "n_gpus_free": 2,
        "cpus": 64.0, "cpus_used": 7.5, "memory": 549_755_813_888u64,
        "memory_used": 34_359_738_368u64, "tasks": 512, "tasks_used": 3,
    });
    merge(&mut node, changes);
    serde_json::from_value(node).unwrap()
}

/// A server.
pub fn status() -> Status {
    serde_json::from_value(json!({
        "version": "0.1.0", "pid": 4711, "user": "root", "socket": "/run/gpool/api.sock",
        "state_dir": "/var/lib/gpool", "term": 3, "revision": 90412,
        "started_at": "2026-11-20T08:00:00Z", "uptime_s": 24_600,
        "jobs": {"running": 3, "pending": 2}, "jobs_ended": 1830,
        "gpus": {"busy": 4, "held_idle": 1, "unmanaged": 1, "free": 2}, "nodes": 1,
        "nodes_connected": 1,
        "policy": {"preset": "fair", "order": ["priority", "escalated", "gpus", "age"],
                   "escalate_after_s": 86_400, "device_strategy": "sequential",
                   "user_priority_max": 0},
    }))
    .unwrap()
}

/// The report of a start after a power failure.
pub fn recovery() -> Recovery {
    let job = |id: &str, became: &str, state: &str, changes: Value| {
        let mut job = json!({"id": id, "user": "ana", "became": became, "state": state,
                             "exit_code": null, "cause": null, "cause_text": null});
        merge(&mut job, changes);
        job
    };
    let lost = json!({"cause": "rebooted",
                      "cause_text": "the machine was restarted while it ran"});
    serde_json::from_value(json!({
        "started_at": "2026-11-20T08:00:00Z", "before": "machine_down",
        "last_seen_at": "2026-11-20T07:40:10Z", "rebooted_at": "2026-11-20T07:59:00Z",
        "jobs": [
            job("1836", "went_on", "running", json!({})),
            job("1837", "ended", "failed", json!({"exit_code": 5})),
            job("1838", "lost", "lost", lost),
            job("1839", "again", "starting", json!({})),
        ],
        "n_waiting": 2, "n_skipped_jobs": 1_000_000, "unexpected": ["1830#1"],
    }))
    .unwrap()
}

/// The explanation of a pending job.
pub fn why(job: &Job) -> Why {
    let device = |index: u32, state: &str, job: Option<&str>, user: Option<&str>| {
        json!({"index": index, "model": "A100-80G", "state": state, "matches": true, "job": job,
               "user": user})
    };
    serde_json::from_value(json!({
        "job": job, "as_of": "2026-11-20T14:50:00Z", "reasons": job.wait.reasons,
        "nodes": [
            {"name": "lab1", "connected": true, "n_matching": 8, "n_free": 2, "devices": [
                device(0, "busy", Some("1839"), Some("ana")),
                device(1, "busy", Some("1839"), Some("ana")),
                device(2, "held_idle", Some("1836"), Some("bo")),
                device(3, "unmanaged", None, Some("eve")),
                device(4, "free", None, None),
                device(5, "free", None, None),
                device(6, "unhealthy", None, None),
            ]},
            {"name": "lab2", "connected": false, "n_matching": 0, "n_free": 0, "devices": []},
        ],
    }))
    .unwrap()
}

/// Sets these fields, also in objects within it.
fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, changes) => *into = changes,
    }
}
