//! Metrics and traces of the lives of jobs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use gpool_client::Client;
use gpool_server::{Detail, Limits, Telemetry, TraceUrl, Traces};
use gpool_wire::JobCreate;
use serde_json::Value;

use crate::rig::{ANA, Rig, raw, request};

fn submit(client: &Client, program: &str, gpus: &str) -> String {
    let job = JobCreate {
        command: vec![program.to_owned()],
        gpus: Some(gpus.to_owned()),
        ..JobCreate::default()
    };
    client.submit(&job, None).unwrap().id
}

fn until_is(rig: &Rig, client: &Client, id: &str, state: &str) {
    rig.until(state, || client.job(id).unwrap().state.to_string() == state);
}

/// The value of the first sample with this name and all of these labels.
fn sample(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let has_name = |line: &&str| line.split(['{', ' ']).next() == Some(name);
    let mut lines = text.lines().filter(has_name);
    let line = lines.find(|line| labels.iter().all(|label| line.contains(label)))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn lives_of_jobs_are_counted() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    until_is(&rig, &client, &submit(&client, "true", "1"), "succeeded");
    let runs = submit(&client, "sleep", "2");
    until_is(&rig, &client, &runs, "running");
    submit(&client, "sleep", "1");
    let text = client.metrics().unwrap();
    let is = |name: &str, labels: &[&str], value: f64| {
        assert_eq!(sample(&text, name, labels), Some(value), "{name}: {text}");
    };
    is("gpool_jobs_submitted_total", &[], 3.0);
    is("gpool_jobs_started_total", &[], 2.0);
    is("gpool_jobs_finished_total", &["result=\"succeeded\"", "cause=\"none\""], 1.0);
    is("gpool_job_run_seconds_count", &["result=\"succeeded\""], 1.0);
    is("gpool_wait_seconds_count", &["size_class=\"1\"", "pool=\"default\""], 1.0);
    is("gpool_wait_seconds_count", &["size_class=\"2-8\""], 1.0);
    is("gpool_start_latency_seconds_count", &[], 2.0);
    is("gpool_decisions_total", &["kind=\"start\""], 2.0);
    is("gpool_pending_jobs", &["reason=\"gpus_not_free\"", "pool=\"any\""], 1.0);
    is("gpool_job_info", &["job_id=\"2\"", "user=\"ana\"", "node=\"lab1\""], 1.0);
    // Only the first of its GPUs has samples.
    is("gpool_job_gpu_utilization_ratio", &["job_id=\"2\""], 0.5);
    is("gpool_node_drained", &["node=\"lab1\""], 0.0);
    is("gpool_gpu_memory_reserved_bytes", &["gpu=\"0\""], 0.0);
    let memory = |name: &str| sample(&text, name, &[]).unwrap();
    let virtually = memory("process_virtual_memory_bytes");
    assert!(virtually >= memory("process_resident_memory_bytes"), "{text}");
    assert!(sample(&text, "gpool_store_write_seconds_count", &[]).unwrap() > 3.0, "{text}");
    assert!(sample(&text, "gpool_step_seconds_count", &[]).unwrap() > 3.0, "{text}");

    client.cancel(std::slice::from_ref(&runs)).unwrap();
    until_is(&rig, &client, &runs, "cancelled");
    // A text is answered for a second.
    let ended = ["result=\"cancelled\"", "cause=\"cancelled\""];
    rig.until("the metrics have its end", || {
        let text = client.metrics().unwrap();
        sample(&text, "gpool_jobs_finished_total", &ended) == Some(1.0)
            && sample(&text, "gpool_job_info", &["job_id=\"2\""]).is_none()
    });
}

#[test]
fn the_detail_limits_the_labels() {
    let telemetry = Telemetry { detail: Some(Detail::Low), ..Telemetry::default() };
    let mut rig = Rig::with_telemetry(Limits::default(), telemetry);
    let client = rig.client(ANA);
    until_is(&rig, &client, &submit(&client, "sleep", "1"), "running");
    let text = client.metrics().unwrap();
    assert_eq!(sample(&text, "gpool_jobs_started_total", &["project=\"other\""]), Some(1.0));
    for absent in ["gpool_job_info", "gpool_project_held_gpus"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
}

#[test]
fn gpus_have_the_names_of_dcgm_where_that_is_asked_for() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    let client = rig.client(ANA);
    until_is(&rig, &client, &submit(&client, "sleep", "1"), "running");
    let (status, _, text) = raw(&socket, &request("GET", "/metrics?names=dcgm", ""));
    assert_eq!(status, 200);
    let labels = [
        "gpu=\"0\"",
        "UUID=\"GPU-0\"",
        "modelName=\"NVIDIA A100-SXM4-80GB\"",
        "hostname=\"lab1\"",
        "hpc_job=\"1\"",
    ];
    for (name, value) in [
        ("DCGM_FI_DEV_GPU_TEMP", 40.0),
        ("DCGM_FI_DEV_POWER_USAGE", 61.5),
        ("DCGM_FI_DEV_GPU_UTIL", 50.0),
        ("DCGM_FI_DEV_FB_USED", 3072.0),
        ("DCGM_FI_PROF_SM_ACTIVE", 0.25),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 2500.0),
    ] {
        assert_eq!(sample(&text, name, &labels), Some(value), "{name}: {text}");
    }
    // The device does not report it.
    assert_eq!(sample(&text, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", &[]), None);
    for path in ["/metrics", "/metrics?names=gpool"] {
        assert!(!raw(&socket, &request("GET", path, "")).2.contains("DCGM_"), "{path}");
    }
    assert_eq!(raw(&socket, &request("GET", "/metrics?names=other", "")).0, 400);

    let telemetry = Telemetry { dcgm: true, ..Telemetry::default() };
    let mut rig = Rig::with_telemetry(Limits::default(), telemetry);
    assert!(rig.client(ANA).metrics().unwrap().contains("DCGM_FI_DEV_GPU_TEMP"));
}

fn traces_to(listener: &TcpListener, n_waiting_max: usize) -> Telemetry {
    let url = format!("http://{}", listener.local_addr().unwrap());
    let to: TraceUrl = url.parse().unwrap();
    assert_eq!(to.as_str(), format!("{url}/v1/traces"));
    Telemetry { traces: Some(Traces { to, n_waiting_max }), ..Telemetry::default() }
}

/// Answers requests with a status, and passes their bodies on.
fn receive(listener: TcpListener, status: &'static str) -> Receiver<Value> {
    let (bodies, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(body) = take(&stream.unwrap(), status) else { continue };
            if bodies.send(body).is_err() {
                return;
            }
        }
    });
    received
}

fn take(stream: &TcpStream, status: &str) -> std::io::Result<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
    let mut stream = stream;
    stream.write_all(answer.as_bytes())?;
    Ok(serde_json::from_slice(&body)?)
}

fn spans_of(body: &Value) -> Vec<Value> {
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

fn attribute<'a>(of: &'a Value, key: &str) -> &'a Value {
    let all = of["attributes"].as_array().unwrap();
    let found = all.iter().find(|it| it["key"] == key);
    let value = &found.unwrap_or_else(|| panic!("{key} is not in {of}"))["value"];
    value.get("stringValue").unwrap_or(&value["doubleValue"])
}

#[test]
fn a_job_is_one_trace_with_a_span_for_each_state() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let telemetry = traces_to(&listener, 100);
    let received = receive(listener, "200 OK");
    let mut rig = Rig::with_telemetry(Limits::default(), telemetry);
    let client = rig.client(ANA);
    let first = submit(&client, "sleep", "2");
    until_is(&rig, &client, &first, "running");
    let second = submit(&client, "sleep", "1");
    let started = client.job(&second).unwrap().submitted_at;
    rig.until("time passes", || gpool_listen::testing::now() > started.0);
    client.cancel(std::slice::from_ref(&first)).unwrap();
    until_is(&rig, &client, &second, "running");
    let running = gpool_listen::testing::now();
    rig.until("time passes", || gpool_listen::testing::now() > running);
    client.cancel(&[second]).unwrap();

    let mut spans: Vec<Value> = Vec::new();
    let root = |spans: &[Value], id: &str| {
        let of_job = |it: &&Value| it["name"] == "job" && attribute(it, "gpool.job.id") == id;
        spans.iter().find(of_job).cloned()
    };
    while root(&spans, "1").is_none() || root(&spans, "2").is_none() {
        let body = received.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        let resource = &body["resourceSpans"][0]["resource"];
        assert_eq!(attribute(resource, "service.name"), "gpool-server");
        spans.extend(spans_of(&body));
    }
    let root = root(&spans, "2").unwrap();
    assert_eq!(root["traceId"].as_str().unwrap().len(), 32, "{root}");
    assert_eq!(root["spanId"].as_str().unwrap().len(), 16, "{root}");
    assert_eq!(root["events"][0]["name"], "cancelled", "{root}");
    assert_eq!(attribute(&root, "gpool.result"), "cancelled");
    assert_eq!(attribute(&root, "gpool.user"), "ana");
    let parts: Vec<&Value> =
        spans.iter().filter(|it| it["parentSpanId"] == root["spanId"]).collect();
    assert!(parts.iter().all(|it| it["traceId"] == root["traceId"]), "{parts:?}");
    let named = |name: &str| *parts.iter().find(|it| it["name"] == name).expect(name);
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time(named("queued"), "startTimeUnixNano") >= time(&root, "startTimeUnixNano"));
    let is_before = |one: &str, other: &str| {
        let end = time(named(one), "endTimeUnixNano");
        end <= time(named(other), "startTimeUnixNano")
    };
    assert!(is_before("queued", "running"), "{parts:?}");
    assert_eq!(attribute(named("running"), "gpool.node"), "lab1");
    let decision = attribute(named("queued"), "gpool.decision.revision");
    assert!(decision.as_str().unwrap().parse::<u64>().unwrap() > 0, "{decision}");
    assert_eq!(attribute(named("running"), "gpool.gpus"), 1.0);
    rig.until("sent spans are counted", || {
        let text = client.metrics().unwrap();
        let sent = sample(&text, "gpool_trace_spans_total", &["result=\"sent\""]);
        sent.is_some_and(|n| n >= 4.0)
    });
}

#[test]
fn a_receiver_that_hangs_or_refuses_delays_no_job() {
    // It never accepts, so a request waits for its time limit.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut rig = Rig::with_telemetry(Limits::default(), traces_to(&hangs, 1));
    let client = rig.client(ANA);
    rig.until("spans are dropped", || {
        until_is(&rig, &client, &submit(&client, "true", "1"), "succeeded");
        let text = client.metrics().unwrap();
        sample(&text, "gpool_trace_spans_total", &["result=\"dropped\""]) > Some(0.0)
    });

    let refuses = TcpListener::bind("127.0.0.1:0").unwrap();
    let telemetry = traces_to(&refuses, 100);
    let received = receive(refuses, "503 Busy");
    let mut rig = Rig::with_telemetry(Limits::default(), telemetry);
    let client = rig.client(ANA);
    until_is(&rig, &client, &submit(&client, "true", "1"), "succeeded");
    received.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    rig.until("failed spans are counted", || {
        let text = client.metrics().unwrap();
        sample(&text, "gpool_trace_spans_total", &["result=\"failed\""]) > Some(0.0)
    });
}

#[test]
fn addresses_of_receivers_get_the_usual_path() {
    let url = |text: &str| text.parse::<TraceUrl>().map(|it| it.to_string());
    let full = Ok("http://host:4318/v1/traces".to_owned());
    assert_eq!(url("http://host:4318"), full);
    assert_eq!(url("http://host:4318/"), full);
    assert_eq!(url("https://host/otlp"), Ok("https://host/otlp".to_owned()));
    for wrong in ["host:4318", "ftp://host", "http://", "http://a b"] {
        assert!(url(wrong).is_err(), "{wrong}");
    }
}
