//! The first answers of the Overview.

use gpool_model::job::JobState;
use gpool_web::{Frame, Order, Overview};
use gpool_wire::budget::BudgetRow;
use gpool_wire::cost::{Cost, CostRow};
use gpool_wire::usage::{GpuHistory, GpuPoints, UsageHistory, UsagePoints, UsageRow};
use gpool_wire::{Eta, Gpu, Job, JobCreate, JobForecast, JobRun, PlacedOn, Reservation, Status};
use serde_json::json;

use crate::minute;

pub fn gpu(index: u32, state: &str, more: &serde_json::Value) -> Gpu {
    let mut gpu = json!({
        "node": "lab1", "index": index, "uuid": format!("GPU-{index}"), "model": "NVIDIA H100",
        "model_short": "H100-80G", "state": state, "memory_total": 80_u64 << 30, "pci_bus": "",
        "allowed": true, "unmanaged": [],
    });
    gpu.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(gpu).unwrap()
}

pub fn status(n_connected: u64) -> Status {
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
        own: &[],
        failed: &[],
        users: &[],
        cost: &[],
        budgets: &[],
        reservations: &[],
        nodes: &[],
        course: &UsageHistory::default(),
        history,
        range: "24h",
        order: Order::default(),
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
        request: JobCreate { gpus: Some("4".to_owned()), ..JobCreate::default() },
        state: JobState::Pending,
        submitted_at: minute(submitted),
        forecast: JobForecast {
            eta: start.map(|at| Eta {
                p10: None,
                p50: Some(minute(at)),
                p90: Some(minute(at + 20)),
                basis: "limit".to_owned(),
                as_of: minute(60),
                later_than: None,
                planned_at: None,
            }),
            expected_run_s: None,
        },
        ..Job::default()
    };
    let mut held = waits("5", 0, None);
    held.wait.held_by = Some("user".to_owned());
    let full = json!([{"code": "group_parallel_limit", "blocking": true, "text": "full"}]);
    let mut array = waits("6", 1, None);
    array.wait.reasons = serde_json::from_value(full).unwrap();
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
    let broken = "Broken or drained 2 faults1 of 2 nodes not connected; lab1:3 XID &#60;79&#62;";
    assert_eq!(answer(&page, "Broken or drained"), broken);
    assert!(page.contains("<li class=\"out\"><b>1</b> unhealthy</li>"), "{page}");
    assert!(page.contains("in use outside gpool</span> by py of eve"), "{page}");
    assert!(
        page.contains("waits 40 min") && page.contains("in 10 min, 90 % sure within 30 min"),
        "{page}"
    );
    let mut certain = waits("7", 20, Some(60));
    certain.forecast.eta = certain.forecast.eta.map(|eta| Eta { p90: eta.p50, ..eta });
    let page = self::page(&gpus, &[certain], &NOTHING, &status(2));
    assert!(page.contains(">now</time>"), "{page}");
}

#[test]
fn gpus_that_get_no_jobs_are_counted_by_their_states() {
    let active = json!([{
        "name": "r1", "for": "user", "beneficiary": "ana", "active": true, "from": minute(0),
        "until": null,
    }]);
    let drain = json!({"drain": {
        "by": null, "at_deadline": "let_finish", "who": "root", "reason": "fan", "since": minute(0),
    }});
    let gpus = [
        gpu(0, "free", &json!({})),
        gpu(1, "free", &json!({"reservations": active})),
        gpu(2, "not_allowed", &json!({"allowed": false})),
        gpu(3, "not_allowed", &json!({"allowed": false})),
        gpu(4, "drained", &drain),
    ];
    let page = page(&gpus, &[], &NOTHING, &status(2));
    for tile in ["1</b> free", "1</b> reserved", "2</b> not allowed", "1</b> drained"] {
        assert!(page.contains(&format!("<b>{tile}")), "{tile}: {page}");
    }
    assert!(!page.contains("unhealthy") && !page.contains("out of order"), "{page}");
    assert_eq!(answer(&page, "Free"), "Free 1 GPU1 H100-80G on lab1");
    let closed = answer(&page, "Broken or drained");
    assert!(closed.starts_with("Broken or drained 1 GPU drained, 2 GPUs not allowed"), "{closed}");
    assert!(page.contains("reserved</span> r1 for user ana"), "{page}");
}

#[test]
fn a_quiet_cluster_says_so() {
    let page = page(&[gpu(0, "free", &json!({}))], &[], &NOTHING, &status(2));
    assert_eq!(answer(&page, "Next start"), "Next start nothing waits");
    assert_eq!(
        answer(&page, "Held idle"),
        "Held idle no GPUIdle: not used for 30 min, or the job&#39;s --idle-after."
    );
    assert_eq!(answer(&page, "Broken or drained"), "Broken or drained no GPU, no node");
}

#[test]
fn the_heat_map_has_a_time_axis_from_the_first_value_until_now() {
    let heat = |n_before: usize, n: usize| {
        let values = vec![None; n_before].into_iter().chain(vec![Some(0.9); n]);
        let points = GpuPoints {
            node: "lab1".to_owned(),
            utilization: values.collect(),
            ..GpuPoints::default()
        };
        let history = GpuHistory { start: minute(0), step_s: 3600, gpus: vec![points] };
        page(&[], &[], &history, &status(2))
    };
    let tick = |x: u32, label: &str| format!("x=\"{x}.0%\" y=\"12\">{label}<");
    let whole = heat(0, 24);
    for (x, label) in [(100, "now"), (75, "−6 h"), (0, "−1 d")] {
        assert!(whole.contains(&tick(x, label)), "{label}: {whole}");
    }
    let half = heat(12, 12);
    assert!(half.contains(&tick(0, "−12 h")), "{half}");
    assert!(half.contains("d=\"M0 0h1000v18h-1000z\""), "{half}");
}

#[test]
fn an_allocated_gpu_without_use_is_idle_also_in_the_minute_that_is_not_recorded_yet() {
    let points = GpuPoints {
        utilization: vec![Some(0.0), Some(0.0)],
        allocated: vec![Some(1.0), None],
        ..GpuPoints::default()
    };
    let history = GpuHistory { start: minute(0), step_s: 60, gpus: vec![points] };
    let page = page(&[], &[], &history, &status(2));
    assert!(page.contains("<path class=\"idle\" d=\"M0 0h1000v18h-1000z\"/>"), "{page}");
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

/// A budget that is nearly used up, a reservation, and GPUs over time.
fn planned() -> (BudgetRow, Reservation, UsageHistory) {
    let budget = json!({
        "kind": "project", "name": "nlp", "since": minute(0), "currency": "EUR", "budget": 10.0,
        "spent": 9.0, "state": "warn",
    });
    let reservation = json!({
        "name": "course", "kind": "reservation", "state": "planned", "for": "user",
        "beneficiary": "ana", "from": minute(180), "until": null, "every": null,
        "gpus_asked": null, "gpus": [], "nodes": ["lab2"], "at_begin": "let_finish",
        "reason": "", "made_by": "root", "made_at": minute(0),
    });
    let points = |value: f64| vec![Some(value), Some(value)];
    let cluster = UsagePoints {
        project: None,
        allocated: points(3.0),
        busy: points(1.0),
        waiting: points(6.0),
        guaranteed: points(4.0),
    };
    let course = UsageHistory { start: minute(58), step_s: 60, cluster, projects: vec![] };
    let budget = serde_json::from_value(budget).unwrap();
    (budget, serde_json::from_value(reservation).unwrap(), course)
}

/// A waiting job of the user, a running one, and a failed one of another user.
fn jobs() -> [Job; 3] {
    let waits = Job {
        id: "9".to_owned(),
        name: "tune".to_owned(),
        state: JobState::Pending,
        submitted_at: minute(50),
        ..Job::default()
    };
    let runs = Job { state: JobState::Running, id: "8".to_owned(), ..waits.clone() };
    let failed = Job {
        id: "5".to_owned(),
        name: "eval".to_owned(),
        user: "bo".to_owned(),
        state: JobState::Failed,
        run: JobRun { exit_code: Some(3), ended_at: Some(minute(30)), ..JobRun::default() },
        ..Job::default()
    };
    [waits, runs, failed]
}

#[test]
fn the_first_answers_are_about_the_user_waste_cost_failures_and_reservations() {
    let [waits, runs, failed] = jobs();
    let user = |name: &str, busy: f64| UsageRow {
        user: Some(name.to_owned()),
        gpu_hours: 10.0,
        measured_gpu_hours: 10.0,
        busy_gpu_hours: Some(busy),
        ..UsageRow::default()
    };
    let cost = |cost: f64| CostRow {
        usage: UsageRow::default(),
        cost: Cost {
            currency: "EUR".to_owned(),
            cost,
            idle_cost: Some(cost / 4.0),
            ..Cost::default()
        },
    };
    let (budget, reservation, course) = planned();
    let free = |node: &str| Gpu { node: node.to_owned(), ..gpu(0, "free", &json!({})) };
    let overview = Overview {
        frame: Frame { user: "ana", ..Frame::default() },
        status: &status(2),
        gpus: &[free("lab1"), free("lab2"), free("lab1"), gpu(3, "busy", &json!({}))],
        running: &[],
        waiting: &[],
        own: &[waits, runs],
        failed: &[failed],
        users: &[user("ana", 9.0), user("bo", 2.5)],
        cost: &[cost(6.0), cost(2.0)],
        budgets: &[budget],
        reservations: &[reservation],
        nodes: &[],
        course: &course,
        history: &NOTHING,
        range: "1h",
        order: Order::default(),
        now: minute(60),
    };
    let page = overview.page();
    let expected = [
        ("Free", "3 GPUs2 H100-80G on lab1; 1 H100-80G on lab2"),
        ("Your jobs", "1 running, 1 waiting"),
        ("Most idle in 7 days", "boUsage 7.50 idle GPU-hours, 75 % of the GPU time of this user"),
        ("Cost this month", "8.00 EURCost 25 % idle; budget of nlp nearly used up"),
        ("Failed in 24 h", "1 job5 eval of bo, 30 min ago: exit 3"),
        ("Reserved soon", "in 2 hcourse lab2 for ana in 2 h"),
    ];
    for (title, text) in expected {
        assert_eq!(answer(&page, title), format!("{title} {text}"));
    }
    assert!(page.contains("<h2 id=\"own\">Your jobs</h2>"), "{page}");
    // Trends on axes that end at all GPUs, and as long as there are points.
    assert!(page.contains("mean 3.00 allocated, 1.00 busy"), "{page}");
    assert!(page.contains("dy=\"4\">4 GPUs</text>"), "{page}");
    assert!(page.contains("6 GPUs now, at most 6 GPUs"), "{page}");
    assert!(page.contains("aria-hidden=\"true\">−2 min</text>"), "{page}");
}

#[test]
fn a_busy_gpu_that_is_drained_says_both() {
    let drain = json!({"drain": {
        "who": "root", "reason": "fan noise", "since": minute(0), "at_deadline": "let_finish",
    }});
    let page = page(&[gpu(0, "busy", &drain)], &[], &NOTHING, &status(2));
    let cell = "<span class=\"state busy\">busy</span> <span class=\"state out\">drained</span> \
                fan noise</td>";
    assert!(page.contains(cell), "{page}");
}
