//! A small cluster as the API shows it.

use gpool_top::data::News;
use gpool_wire::{Gpu, Job, Quantity, Status, Time};
use serde_json::{Value, from_value, json};

/// The time of every picture.
pub fn now() -> Time {
    "2026-11-20T15:30:02Z".parse().unwrap()
}

pub fn status(jobs: &Value, gpus: &Value) -> Status {
    from_value(json!({
        "version": "0.1.0", "pid": 1, "user": "ana", "socket": "/s", "state_dir": "/d", "term": 1,
        "revision": 1, "started_at": "2026-11-20T10:00:00Z", "uptime_s": 9, "jobs": jobs,
        "jobs_ended": 0, "gpus": gpus, "nodes": 1, "nodes_connected": 1,
        "policy": {
            "preset": "fair", "order": [], "escalate_after_s": 1, "device_strategy": "pack",
            "user_priority_max": 1,
        },
        "store_fault": null,
    }))
    .unwrap()
}

pub fn gpu(index: u32, state: &str, change: &Value) -> Gpu {
    let mut gpu = json!({
        "node": "lab1", "index": index, "uuid": format!("GPU-{index}"),
        "model": "NVIDIA H100 80GB HBM3", "model_short": "H100-80G", "state": state,
        "memory_total": 85_899_345_920_u64, "memory_used": 0, "memory_free": null,
        "utilization": 0.0, "temperature_c": 41, "power_w": 70.0, "pci_bus": "", "minor": null,
        "numa": null, "mig": null, "part_of": null, "health_why": null, "allowed": true,
        "job": null, "user": null, "project": null, "unmanaged": [],
    });
    for (key, value) in change.as_object().unwrap() {
        gpu[key] = value.clone();
    }
    from_value(gpu).unwrap()
}

pub fn gpus() -> Vec<Gpu> {
    let held = |job: &str, user: &str, part: f64, used: u64| {
        json!({
            "job": job, "user": user, "project": "vision", "utilization": part,
            "memory_used": used << 30, "temperature_c": 63, "power_w": 412.0,
        })
    };
    let process = json!({
        "pid": 4711, "user": "bo", "name": "python", "memory": 12_u64 << 30,
        "seen_since": "2026-11-20T15:00:00Z",
    });
    vec![
        gpu(0, "busy", &held("17", "ana", 0.94, 60)),
        gpu(1, "busy", &held("17", "ana", 0.52, 40)),
        gpu(2, "unmanaged", &json!({"unmanaged": [process], "memory_used": 12_u64 << 30})),
        gpu(3, "free", &json!({})),
    ]
}

pub fn job(id: &str, name: &str, user: &str, state: &str) -> Job {
    let mut job = Job {
        id: id.to_owned(),
        name: name.to_owned(),
        user: user.to_owned(),
        project: "vision".to_owned(),
        state: from_value(json!(state)).unwrap(),
        submitted_at: "2026-11-20T15:00:00Z".parse().unwrap(),
        ..Job::default()
    };
    job.request.gpus = Some("2".to_owned());
    if state == "running" {
        job.run.started_at = Some("2026-11-20T15:10:02Z".parse().unwrap());
        job.request.time = Some(Quantity::Decimal(7200.0));
        job.placement =
            from_value(json!([{"node": "lab1", "devices": [0, 1], "uuids": ["GPU-0", "GPU-1"]}]))
                .unwrap();
    } else if state == "pending" {
        let text = "It needs 2 GPUs, and 1 is free";
        job.wait.reasons =
            from_value(json!([{"code": "gpus", "text": text, "facts": {}, "blocking": true}]))
                .unwrap();
    }
    job
}

pub fn jobs() -> Vec<Job> {
    vec![
        job("17", "train", "ana", "running"),
        job("18", "eval", "bo", "pending"),
        job("19", "sweep", "ana", "held"),
    ]
}

/// Everything that a view of the cluster gets.
pub fn news() -> Vec<News> {
    let counts = json!({"running": 1, "pending": 1, "held": 1});
    let status = status(&counts, &json!({"busy": 2, "unmanaged": 1, "free": 1}));
    let log = "epoch 1 loss 2.31\n\x1b[32mepoch 2\x1b[0m loss 1.98\nstep 1/9\rstep 9/9\n";
    vec![
        News::Jobs(jobs(), None),
        News::Cluster(Box::new(status.clone()), gpus()),
        News::Cluster(Box::new(status), gpus()),
        News::Log { job: "17".to_owned(), text: log.to_owned() },
        News::Why {
            job: "18".to_owned(),
            text: "Job 18 waits.\n\nIt needs 2 GPUs, and 1 is free.\n  expected  15:40\n"
                .to_owned(),
        },
    ]
}
