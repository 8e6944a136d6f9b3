//! The API as other programs use it.

use serde_json::{Value, json};

use crate::harness::{Cluster, is_root};
use crate::http::{Http, next_event};

#[test]
fn it_serves_its_document_its_health_and_the_callers_user() {
    let cluster = Cluster::new("none");
    let http = Http::new(&cluster);
    let answer = http.get("/openapi.json");
    assert_eq!(answer.status, 200);
    let document = answer.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in ["/api/v1/jobs", "/api/v1/jobs/{id}/cancel", "/api/v1/gpus", "/api/v1/events"] {
        assert!(document["paths"].get(path).is_some(), "{path}");
    }
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(document, kept);
    assert_eq!(http.get("/healthz").status, 200);
    assert_eq!(http.get("/readyz").status, 200);
    let version = http.get("/api/v1/version").json();
    assert_eq!(version["pid"], cluster.server_pid());
    let status = http.get("/api/v1/status").json();
    if is_root() {
        assert_eq!(status["user"], "root", "{status}");
    }
}

#[test]
fn a_repeated_create_gets_the_same_answer() {
    let mut cluster = Cluster::new("none");
    let http = Http::new(&cluster);
    let key = [("Idempotency-Key", "one-and-only")];
    let body = json!({"command": ["true"], "name": "a"});
    let first = http.post_with("/api/v1/jobs", &key, &body);
    assert_eq!(first.status, 201, "{first:?}");
    let again = http.post_with("/api/v1/jobs", &key, &body);
    assert!([200, 201].contains(&again.status), "{again:?}");
    assert_eq!(again.json()["id"], first.json()["id"]);
    let other = http.post_with("/api/v1/jobs", &key, &json!({"command": ["false"]}));
    assert_eq!((other.status, other.problem_code()), (409, "GP0704".to_owned()));
    // The next server remembers the key.
    cluster.kill();
    cluster.up();
    let later = http.post_with("/api/v1/jobs", &key, &body);
    assert_eq!(later.json()["id"], first.json()["id"]);
    assert_eq!(cluster.all_ids(), ["1"]);
}

#[test]
fn a_repeated_retry_makes_one_job() {
    let cluster = Cluster::new("none");
    let http = Http::new(&cluster);
    let id = cluster.submit(["--", "false"]);
    cluster.until_ended(&id);
    let key = [("Idempotency-Key", "one-and-only")];
    let retry = |key: &[(&str, &str)], path: &str| http.post_with(path, key, &json!({}));
    let path = format!("/api/v1/jobs/{id}/retry");
    let (first, again) = (retry(&key, &path), retry(&key, &path));
    assert_eq!((first.status, again.status), (200, 200), "{first:?} {again:?}");
    assert_eq!(again.json()["id"], first.json()["id"]);
    assert_eq!(cluster.all_ids().len(), 2);
    // A key belongs to one request.
    let other = retry(&key, &format!("{path}?hold=true"));
    assert_eq!((other.status, other.problem_code()), (409, "GP0704".to_owned()));
    assert_eq!(retry(&[("Idempotency-Key", "another")], &path).status, 200);
    assert_eq!(cluster.all_ids().len(), 3);
}

#[test]
fn events_resume_after_a_restart_and_report_every_gap() {
    let mut cluster = Cluster::new("none");
    let http = Http::new(&cluster);
    let mut stream = http.events(None);
    let first = cluster.submit(["--hold", "--", "true"]);
    let (seen, event) = next_event(&mut stream);
    assert_eq!((&event["type"], &event["job"]), (&"job_state".into(), &first.as_str().into()));
    assert_eq!(event["state"], "held");
    let missed = cluster.submit(["--hold", "--", "true"]);
    // While the server runs, no event is left out.
    let mut resumed = http.events(Some(&seen));
    assert_eq!(next_event(&mut resumed).1["job"], missed.as_str());
    let (seen, _) = next_event(&mut stream);
    cluster.gpool(["cancel", &missed]).ok();
    cluster.kill();
    cluster.up();
    // After a restart, either all missed events come, or an event that reports the gap.
    let mut resumed = http.events(Some(&seen));
    let (_, event) = next_event(&mut resumed);
    let is_told = event["type"] == "resync"
        || (event["job"] == missed.as_str() && event["state"] == "cancelled");
    assert!(is_told, "{event}");
    let third = cluster.submit(["--hold", "--", "true"]);
    let is_third = |event: &Value| event["job"] == third.as_str();
    while !is_third(&next_event(&mut resumed).1) {}
}

#[test]
fn metrics_are_in_the_openmetrics_format() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&id, "running");
    let answer = Http::new(&cluster).get("/metrics");
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(answer.body.ends_with("# EOF\n"), "{}", answer.body);
    let mut n_samples = 0;
    for line in answer.body.lines() {
        if let Some(about) = line.strip_prefix("# ") {
            let known = ["HELP ", "TYPE ", "UNIT ", "EOF"];
            assert!(known.iter().any(|word| about.starts_with(word)), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(name.starts_with("gpool_") || name.starts_with("process_"), "{line}");
        assert!(name.contains('{') == name.ends_with('}'), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        n_samples += 1;
    }
    assert!(n_samples > 10, "{}", answer.body);
}
