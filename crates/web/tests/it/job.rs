//! The charts of a job.

use gpool_model::{Millis, NodeName};
use gpool_web::{Frame, JobPage, csv};
use gpool_wire::gpu::xid::JobXid;
use gpool_wire::job_metrics::{JobMetric, JobMetrics};
use gpool_wire::usage::{GpuHistory, GpuPoints};
use gpool_wire::{Gpu, Job, JobEvent, PlacedOn, Report, Time};
use serde_json::json;

use crate::minute;

pub fn gpu() -> Gpu {
    let gpu = json!({
        "node": "lab1", "index": 0, "uuid": "GPU-0", "model": "NVIDIA H100", "model_short": "H100-80G",
        "state": "busy", "memory_total": 80_u64 << 30, "pci_bus": "", "allowed": true,
        "unmanaged": [], "utilization": 0.5, "memory_used": 12_u64 << 30,
    });
    serde_json::from_value(gpu).unwrap()
}

pub fn history() -> GpuHistory {
    let gib = f64::from(1 << 30);
    let points = GpuPoints {
        node: "lab1".to_owned(),
        uuid: "GPU-0".to_owned(),
        utilization: vec![Some(1.0), Some(0.68), Some(0.0), Some(0.0), None],
        memory_used: vec![Some(20.0 * gib), Some(60.0 * gib), None, None, None],
        ..GpuPoints::default()
    };
    GpuHistory { start: minute(0), step_s: 60, gpus: vec![points] }
}

pub fn placement() -> Vec<PlacedOn> {
    let placed = PlacedOn {
        node: "lab1".to_owned(),
        devices: vec![0],
        booked: None,
        uuids: vec!["GPU-0".to_owned()],
        gpus: None,
    };
    vec![placed]
}

fn page(history: &GpuHistory, events: &[JobEvent]) -> String {
    page_with(history, events, &JobMetrics::default())
}

fn page_with(history: &GpuHistory, events: &[JobEvent], over_time: &JobMetrics) -> String {
    page_of(Job { started_at: Some(minute(0)), ..Job::default() }, history, events, over_time)
}

fn page_of(job: Job, history: &GpuHistory, events: &[JobEvent], over_time: &JobMetrics) -> String {
    let job = Job { id: "7".to_owned(), placement: placement(), ..job };
    let page = JobPage {
        frame: Frame::default(),
        report: &Report::new(job, minute(5)),
        events,
        output: Ok(""),
        stream: "both",
        gpus: &[gpu()],
        history,
        over_time,
        elements: None,
        now: minute(5),
    };
    page.page()
}

#[test]
fn charts_of_measured_series_have_their_figures_as_text() {
    let page = page(&history(), &[]);
    assert!(page.contains("<b>Utilization</b> mean 42 %, idle 2 min"), "{page}");
    assert!(page.contains("<b>Memory</b> mean 40 GiB, at most 60 GiB of 80 GiB"), "{page}");
    // Power is not measured.
    assert!(!page.contains("<b>Power</b>"), "{page}");
    // The last point is not measured: the area ends at four fifths.
    assert!(page.contains("M0 48L0 0.0L120 0.0L120 15.4L240 15.4L240 48.0"), "{page}");
    assert!(page.contains("L480 48.0L480 48z\""), "{page}");
}

#[test]
fn a_job_is_idle_only_within_its_run() {
    let within = |started_at: u32, ended_at: u32| {
        let at = |seconds| Some(Time(minute(0).0.after(Millis::from_secs(seconds))));
        let job = Job { started_at: at(started_at), ended_at: at(ended_at), ..Job::default() };
        page_of(job, &history(), &[], &JobMetrics::default())
    };
    // Its device is idle from the second to the fourth minute.
    assert!(within(150, 190).contains("mean 42 %, idle 40 s"));
    assert!(within(30, 170).contains("mean 42 %, idle 50 s"));
    assert!(within(30, 90).contains("mean 42 %, never idle"));
}

#[test]
fn a_job_shows_the_errors_of_its_gpus() {
    let seen = |device: u32, xid: u64, count: u64| {
        let node = NodeName::new("lab1");
        JobXid::from(&gpool_model::xid::JobXid { node, device, xid, count })
    };
    let job = Job { xids: vec![seen(0, 79, 2), seen(1, 4000, 1)], ..Job::default() };
    let page = page_of(job, &history(), &[], &JobMetrics::default());
    let row = "<dt>GPU errors</dt><dd>Xid 79 on lab1:0, 2 times: the GPU has fallen off the bus \
               (a fault of the GPU or its driver); \
               Xid 4000 on lab1:1: see NVIDIA&#39;s Xid catalog</dd>";
    assert!(page.contains(row), "{page}");
}

#[test]
fn charts_have_the_values_of_their_points_for_the_cursor() {
    let page = page(&history(), &[]);
    let start = minute(0).0.get();
    let data = |unit: &str, values: &str| {
        format!(
            "data-start=\"{start}\" data-step=\"60000\" data-unit=\"{unit}\" \
             data-values=\"{values}\""
        )
    };
    assert!(page.contains(&data(" %", "100,68,0,0,")), "{page}");
    assert!(page.contains(&data(" GiB", "20,60,,,")), "{page}");
    assert!(page.contains("src=\"/assets/cursor.js\""), "{page}");
}

#[test]
fn events_within_the_charts_are_marks_and_neighbors_are_one() {
    let event = |n: u32, text: &str| JobEvent {
        time: minute(n),
        seq: None,
        kind: "idle".to_owned(),
        job: "7".to_owned(),
        text: text.to_owned(),
        by: None,
        facts: Default::default(),
    };
    let events = [event(2, "is idle"), event(2, "warned"), event(4, "<active>"), event(9, "later")];
    let page = page(&history(), &events);
    let mark = |text: &str, x: u32| {
        format!("<g class=\"event\"><title>{text}</title><rect x=\"{x}\" width=\"2\"")
    };
    assert!(page.contains(&mark("is idle\nwarned", 240)), "{page}");
    assert!(page.contains(&mark("&#60;active&#62;", 480)), "{page}");
    assert!(!page.contains("<title>later"), "{page}");
}

#[test]
fn the_file_has_a_line_for_each_measured_point() {
    let text = csv(&history());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[0], "time,gpu,utilization,memory_used_bytes,power_watts");
    assert_eq!(lines[2], format!("{},lab1:0,0.680,64424509440,", minute(1)));
    assert_eq!(lines[4], format!("{},lab1:0,0.000,,", minute(3)));
}

#[test]
fn hosts_and_metrics_have_charts_of_their_own() {
    let metric = JobMetric {
        name: "loss".to_owned(),
        last: Some(0.25),
        points: vec![Some(-1.0), None, Some(0.25), None],
    };
    let over_time = JobMetrics {
        start: minute(0),
        step_s: 60,
        cpu: vec![Some(2.0), Some(4.0), None, None],
        metrics: vec![metric],
        ..JobMetrics::default()
    };
    let page = page_with(&history(), &[], &over_time);
    assert!(page.contains("Hosts and metrics over time"), "{page}");
    assert!(page.contains("<b>CPU</b> mean 3.0 cores, at most 4.0 cores"), "{page}");
    assert!(!page.contains("<b>Read</b>"), "what is not measured has no chart: {page}");
    assert!(page.contains("<b>loss</b> 0.25 now or last, from -1 to 0.25"), "{page}");
    // A value holds until the next one.
    assert!(page.contains("M0 48L0 43.2L150 43.2L150 43.2L300 43.2L300 0.0L450 0.0"), "{page}");
    let without = page_with(&history(), &[], &JobMetrics::default());
    assert!(!without.contains("Hosts and metrics"), "{without}");
}
