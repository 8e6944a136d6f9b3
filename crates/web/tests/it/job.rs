//! The charts of a job.

use gpool_model::job::JobState;
use gpool_model::{Millis, NodeName};
use gpool_web::{Frame, JobPage, Order, csv};
use gpool_wire::gpu::xid::JobXid;
use gpool_wire::job_metrics::{JobMetric, JobMetrics};
use gpool_wire::usage::{GpuHistory, GpuPoints};
use gpool_wire::{Gpu, Job, JobEvent, JobRun, PlacedOn, Report, Time, Why};
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

/// A job with these times of its run.
fn ran(started_at: Option<Time>, ended_at: Option<Time>) -> Job {
    Job { run: JobRun { started_at, ended_at, ..JobRun::default() }, ..Job::default() }
}

fn page(history: &GpuHistory, events: &[JobEvent]) -> String {
    page_with(history, events, &JobMetrics::default())
}

fn page_with(history: &GpuHistory, events: &[JobEvent], over_time: &JobMetrics) -> String {
    page_of(ran(Some(minute(0)), None), history, events, over_time)
}

fn page_of(job: Job, history: &GpuHistory, events: &[JobEvent], over_time: &JobMetrics) -> String {
    let job = Job { id: "7".to_owned(), placement: placement(), ..job };
    let page = JobPage {
        frame: Frame::default(),
        report: &Report::new(job, minute(5)),
        why: None,
        events,
        output: Ok(""),
        stream: "both",
        gpus: &[gpu()],
        history,
        over_time,
        elements: None,
        address: "/jobs/7",
        order: Order::default(),
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
    assert!(page.contains("class=\"busy\" d=\"M0 0.0H120L120 17.9H240L240 56.0H360"), "{page}");
    assert!(page.contains("L360 56.0H480L480 56.0H360"), "{page}");
    // The axes have units, and the time is that of the run.
    for mark in ["0 %", "50 %", "100 %", "0 B", "40 GiB", "80 GiB"] {
        assert!(page.contains(&format!("dy=\"4\">{mark}</text>")), "{mark}: {page}");
    }
    assert!(page.contains("aria-hidden=\"true\">now</text>"), "{page}");
    assert!(page.contains("aria-hidden=\"true\">−2 min</text>"), "{page}");
}

#[test]
fn a_job_is_idle_only_within_its_run() {
    let within = |started_at: u32, ended_at: u32| {
        let at = |seconds| Some(Time(minute(0).0.after(Millis::from_secs(seconds))));
        page_of(ran(at(started_at), at(ended_at)), &history(), &[], &JobMetrics::default())
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
    let mut job = Job::default();
    job.run.xids = vec![seen(0, 79, 2), seen(1, 4000, 1)];
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
    let data = |values: &str| {
        format!("data-start=\"{start}\" data-step=\"60000\" data-values=\"{values}\"")
    };
    assert!(page.contains(&data("100 %|68 %|0 %|0 %|")), "{page}");
    assert!(page.contains(&data("20 GiB|60 GiB|||")), "{page}");
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
        format!("<g class=\"event\"><title>{text}</title><rect x=\"{x}.0%\" y=\"8\" width=\"2\"")
    };
    assert!(page.contains(&mark("is idle\nwarned", 40)), "{page}");
    assert!(page.contains(&mark("&#60;active&#62;", 80)), "{page}");
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
    assert!(page.contains("<b>CPU</b> mean 3 cores, at most 4 cores"), "{page}");
    assert!(!page.contains("<b>Read</b>"), "what is not measured has no chart: {page}");
    assert!(page.contains("<b>loss</b> 0.25 now or last, from -1 to 0.25"), "{page}");
    // A metric is a line, and a value holds until the next one.
    let line = "class=\"metric\" d=\"M0 56.0L75 56.0L225 56.0L375 21.0L525 21.0L600 21.0\"";
    assert!(page.contains(line), "{page}");
    let without = page_with(&history(), &[], &JobMetrics::default());
    assert!(!without.contains("Hosts and metrics"), "{without}");
}

#[test]
fn a_part_of_a_gpu_has_its_own_use_and_not_that_of_the_device() {
    let mut placed = placement();
    placed[0].gpus = Some(0.5);
    let job = Job { id: "7".to_owned(), placement: placed, ..ran(Some(minute(0)), None) };
    let over_time = JobMetrics {
        start: minute(0),
        step_s: 60,
        cpu: vec![None; 2],
        gpu_utilization: vec![Some(0.25), Some(0.75)],
        ..JobMetrics::default()
    };
    let page = JobPage {
        frame: Frame::default(),
        report: &Report::new(job, minute(5)),
        why: None,
        events: &[],
        output: Ok(""),
        stream: "both",
        gpus: &[gpu()],
        history: &history(),
        over_time: &over_time,
        elements: None,
        address: "/jobs/7",
        order: Order::default(),
        now: minute(5),
    };
    let page = page.page();
    assert!(!page.contains("GPUs over time"), "{page}");
    assert!(page.contains("<b>Its parts of GPUs</b>"), "{page}");
    assert!(page.contains("<b>Utilization</b> mean 50 %, at most 75 %"), "{page}");
}

#[test]
fn an_ended_job_runs_again_as_it_was_and_its_texts_are_of_an_ended_job() {
    let ended = Job { state: JobState::Succeeded, ..ran(Some(minute(0)), Some(minute(2))) };
    let mut removed = ended.clone();
    removed.run.can_retry = Some(false);
    let page = |job: Job| page_of(job, &GpuHistory::default(), &[], &JobMetrics::default());
    let shown = page(ended.clone());
    assert!(shown.contains("action=\"/retry\"") && shown.contains("gpool retry 7"), "{shown}");
    // A command line would lose flags that the page does not know.
    assert!(!shown.contains("gpool submit --"), "{shown}");
    assert!(!shown.contains("after the end") && shown.contains("Nothing was measured"), "{shown}");
    assert!(shown.contains("<dt>Ran</dt><dd>2 min</dd>"), "{shown}");
    for gone in [removed, Job { private: true, ..ended }] {
        assert!(!page(gone).contains("/retry"));
    }
    assert!(page(ran(Some(minute(0)), None)).contains("after the end"));
}

#[test]
fn a_waiting_job_shows_who_has_the_gpus_and_what_would_help() {
    let why = json!({
        "job": Job { id: "7".to_owned(), ..Job::default() }, "as_of": minute(5),
        "reasons": [
            {"code": "a", "blocking": true, "text": "It needs 2 GPUs <here>"},
            {"code": "b", "blocking": false, "text": "It may only run on lab1"},
        ],
        "nodes": [{
            "name": "lab1", "connected": true, "n_matching": 2, "n_free": 0,
            "devices": [
                {"index": 0, "model": "H100", "state": "busy", "matches": true, "job": "3",
                 "user": "ana", "until": minute(65), "until_by": "limit"},
                {"index": 1, "model": "H100", "state": "busy", "matches": true, "job": "3",
                 "user": "ana", "until": minute(65), "until_by": "limit"},
                {"index": 2, "model": "A100", "state": "busy", "matches": false, "job": "4",
                 "user": "bo", "until": null, "until_by": null},
            ],
        }],
        "eta": null, "eta_missing": "no job has a limit",
        "place": {"n_ahead": 2, "n_pending": 4, "ahead": []},
        "alternatives": [
            {"change": "gpus", "flags": "--gpus 1", "text": "it requests 1 GPU", "eta": null,
             "gain_s": 5.0, "helps": true},
            {"change": "time_limit", "flags": "--time 5m", "text": "no", "eta": null,
             "gain_s": null, "helps": false},
        ],
    });
    let why: Why = serde_json::from_value(why).unwrap();
    let job = Job { id: "7".to_owned(), state: JobState::Pending, ..Job::default() };
    let page = JobPage {
        frame: Frame::default(),
        report: &Report::new(job, minute(5)),
        why: Some(&why),
        events: &[],
        output: Ok(""),
        stream: "both",
        gpus: &[],
        history: &GpuHistory::default(),
        over_time: &JobMetrics::default(),
        elements: None,
        address: "/jobs/7",
        order: Order::default(),
        now: minute(5),
    };
    let page = page.page();
    assert!(page.contains("<li>It needs 2 GPUs &#60;here&#62;</li>"), "{page}");
    assert!(!page.contains("only run on lab1"), "it does not block: {page}");
    assert!(page.contains("<li>2 jobs are before it in the queue.</li>"), "{page}");
    assert!(page.contains("Its start is not known: no job has a limit."), "{page}");
    let holder = "<a href=\"/jobs/3\">3</a></th><td>ana</td><td>lab1:0 lab1:1</td>\
                  <td class=\"short\">in 1 h</td>";
    assert!(page.contains(holder) && !page.contains("/jobs/4"), "{page}");
    assert!(page.contains("<td>it requests 1 GPU</td>") && page.contains("--gpus 1"), "{page}");
    assert!(!page.contains("--time 5m"), "{page}");
}
