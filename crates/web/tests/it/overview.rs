//! The first answers of the Overview.

use gpool_model::job::JobState;
use gpool_web::{Frame, Overview};
use gpool_wire::usage::{GpuHistory, GpuPoints};
use gpool_wire::{Eta, Gpu, Job, PlacedOn, Status};
use serde_json::json;

use crate::minute;

fn gpu(index: u32, state: &str, more: &serde_json::Value) -> Gpu {
    let mut gpu = json!({
        "node": "lab1", "index": index, "uuid": format!("GPU-{index}"), "model": "NVIDIA H100",
        "model_short": "H100-80G", "state": state, "memory_total": 80_u64 << 30, "pci_bus": "",
        "allowed": true, "unmanaged": [],
    });
    gpu.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(gpu).unwrap()
}

fn status(n_connected: u64) -> Status {
    let status = json!({
        "version": "1", "pid": 1, "user": "root", "socket": "", "state_dir": "", "term": 1,
        "revision": 1, "started_at": minute(0), "uptime_s": 60, "jobs": {"pending": 2},
        "jobs_ended": 0, "gpus": {}, "nodes": 2, "nodes_connected": n_connected,
        "policy": {
            "preset": "fair", "order": [], "escalate_after_s": 1, "device_strategy": "sequential",
            "user_priority_max": 0,
        },
    });
    serde_json::from_value(status).unwrap()
}

fn page(gpus: &[Gpu], waiting: &[Job], history: &GpuHistory, status: &Status) -> String {
    let overview = Overview {
        frame: Frame::default(),
        status,
        gpus,
        running: &[],
        waiting,
        history,
        range: "24h",
        now: minute(60),
    };
    overview.page()
}

const NOTHING: GpuHistory =
    GpuHistory { start: gpool_wire::Time(gpool_model::Timestamp::ZERO), step_s: 60, gpus: vec![] };

/// The text of an answer, without elements.
fn answer(page: &str, title: &str) -> String {
    let from = page.find(&format!("\">{title}</span>")).expect("the answer is there") + 2;
    let text = &page[from..from + page[from..].find("</li>").unwrap()];
    let parts = text.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.collect()
}

#[test]
fn a_busy_cluster_is_answered_at_a_glance() {
    let waits = |id: &str, submitted: u32, start: Option<u32>| Job {
        id: id.to_owned(),
        name: "train".to_owned(),
        user: "ana".to_owned(),
        gpus: "4".to_owned(),
        state: JobState::Pending,
        submitted_at: minute(submitted),
        eta: start.map(|at| Eta {
            p10: None,
            p50: Some(minute(at)),
            p90: Some(minute(at + 20)),
            basis: "limit".to_owned(),
            as_of: minute(60),
            later_than: None,
            planned_at: None,
        }),
        ..Job::default()
    };
    let held = Job { held_by: Some("user".to_owned()), ..waits("5", 0, None) };
    let full = json!([{"code": "group_parallel_limit", "blocking": true, "text": "full"}]);
    let array = Job { reasons: serde_json::from_value(full).unwrap(), ..waits("6", 1, None) };
    let waiting = [waits("3", 20, Some(90)), waits("4", 40, Some(70)), held, array];
    let idle = |n: u32| json!({"user": "bo", "idle": [{"job": "7", "since": minute(n)}]});
    let gpus = [
        gpu(0, "free", &json!({})),
        gpu(1, "held_idle", &idle(30)),
        gpu(2, "held_idle", &idle(12)),
        gpu(3, "unhealthy", &json!({"health_why": "XID <79>"})),
        gpu(
            4,
            "unmanaged",
            &json!({"unmanaged": [{"pid": 7, "user": "eve", "name": "py",
            "seen_since": minute(1)}]}),
        ),
    ];
    let page = page(&gpus, &waiting, &NOTHING, &status(1));
    assert!(page.contains("<b>1</b> free <span>of 5</span>"), "{page}");
    assert_eq!(
        answer(&page, "Next start"),
        "Next start in 10 min4 train of ana, 4 GPUs. 90 % sure within 30 min"
    );
    assert_eq!(answer(&page, "Longest wait"), "Longest wait 40 min3 train of ana");
    assert_eq!(answer(&page, "Held idle"), "Held idle 2 GPUsjob 7 of bo for 48 min");
    let broken = "Broken 2 faults1 of 2 nodes not connected; lab1:3 XID &#60;79&#62;";
    assert_eq!(answer(&page, "Broken"), broken);
    assert!(page.contains("in use outside gpool</span> by py of eve"), "{page}");
    assert!(
        page.contains("waits 40 min") && page.contains("in 10 min, 90 % sure within 30 min"),
        "{page}"
    );
    let certain = waits("7", 20, Some(60));
    let eta = certain.eta.map(|eta| Eta { p90: eta.p50, ..eta });
    let page = self::page(&gpus, &[Job { eta, ..waits("7", 20, None) }], &NOTHING, &status(2));
    assert!(page.contains(">now</time>"), "{page}");
}

#[test]
fn a_quiet_cluster_says_so() {
    let page = page(&[gpu(0, "free", &json!({}))], &[], &NOTHING, &status(2));
    assert_eq!(answer(&page, "Next start"), "Next start nothing waits");
    assert_eq!(
        answer(&page, "Held idle"),
        "Held idle no GPUIdle: not used for 30 min, or the job&#39;s --idle-after."
    );
    assert_eq!(answer(&page, "Broken"), "Broken no GPU, no node");
}

#[test]
fn the_heat_map_has_a_time_axis_that_ends_now() {
    let points = GpuPoints {
        node: "lab1".to_owned(),
        utilization: vec![None; 23].into_iter().chain([Some(0.9)]).collect(),
        ..GpuPoints::default()
    };
    let history = GpuHistory { start: minute(0), step_s: 3600, gpus: vec![points] };
    let page = page(&[], &[], &history, &status(2));
    let tick = |x: u32, label: &str| format!("x=\"{x}\" y=\"40\" aria-hidden=\"true\">{label}<");
    assert!(page.contains(&tick(1000, "now")), "{page}");
    assert!(page.contains(&tick(750, "−6 h")) && page.contains(&tick(0, "−1 d")), "{page}");
}

#[test]
fn neighboring_devices_are_a_range() {
    let placed = |devices: &[u32]| PlacedOn {
        node: "lab1".to_owned(),
        devices: devices.to_vec(),
        booked: None,
        uuids: Vec::new(),
        gpus: None,
    };
    let job = Job { placement: vec![placed(&[0, 1, 2, 3, 5, 6, 9])], ..Job::default() };
    let page = page(&[], &[job], &NOTHING, &status(2));
    assert!(page.contains("lab1:0–3,5,6,9"), "{page}");
}
