//! `gpool simulate`: the effects of changes are shown, and nothing is changed.

use serde_json::Value;

use crate::harness::Cluster;
use crate::here::Here;

/// Project red has all four GPUs, two of them borrowed from blue; a job of red waits.
fn lent() -> (Cluster, Vec<String>, String) {
    let cluster = Cluster::new("sim:4xH100-80G");
    cluster.gpool(["project", "edit", "default", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "red", "--gpus", "2"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "2"]).ok();
    let flags = ["--project", "red", "--gpus", "1", "--preemptible", "--time", "1h"];
    let runs: Vec<String> = (0..4).map(|_| cluster.sh(&flags, "sleep 1000")).collect();
    for id in &runs {
        cluster.until_is(id, "running");
    }
    let waits = cluster.sh(&flags, "true");
    (cluster, runs, waits)
}

fn simulate(cluster: &Cluster, words: &[&str]) -> Value {
    cluster.gpool([&["simulate", "-o", "json"], words].concat()).json()
}

fn what<'v>(made: &'v Value, id: &str) -> &'v str {
    let jobs = made["jobs"].as_array().unwrap();
    let job = jobs.iter().find(|job| job["id"] == id);
    job.map_or("", |job| job["what"].as_str().unwrap())
}

fn project<'v>(made: &'v Value, name: &str) -> &'v Value {
    let projects = made["projects"].as_array().unwrap();
    projects.iter().find(|it| it["project"] == name).unwrap()
}

/// Everything that a change would affect.
fn state_of(cluster: &Cluster) -> Vec<Value> {
    let asked: [&[&str]; 4] = [
        &["queue", "--json"],
        &["nodes", "--json"],
        &["policy", "show", "--json"],
        &["project", "list", "--json"],
    ];
    let read = |words: &[&str]| {
        let text = cluster.gpool(words.iter().copied()).ok();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        without_times(&mut value);
        value
    };
    asked.map(read).to_vec()
}

/// Removes times, since time passes and forecasts change meanwhile.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_time = |key: &str| key.ends_with("_s") || key.ends_with("_at");
            fields.retain(|key, _| !is_time(key) && !["eta", "gpu_hours"].contains(&key.as_str()));
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

#[test]
fn the_effects_of_changes_are_shown_and_nothing_is_changed() {
    let (cluster, runs, waits) = lent();
    let before = state_of(&cluster);
    let made = simulate(&cluster, &[]);
    assert_eq!(what(&made, &waits), "waits", "{made}");
    assert_eq!(made["n_touched"], 1, "{made}");
    let made = simulate(&cluster, &["--if", "cancel 1"]);
    assert_eq!((what(&made, "1"), what(&made, &waits)), ("stopped", "starts"), "{made}");
    // A job of the owner reclaims its GPUs from the jobs that lose the least work.
    let made = simulate(&cluster, &["--if", "submit gpus=2 project=blue"]);
    let taken = runs.iter().filter(|id| what(&made, id) == "taken_back").count();
    assert_eq!(taken, 2, "{made}");
    assert_eq!(what(&made, "6"), "starts", "{made}");
    let (red, blue) = (project(&made, "red"), project(&made, "blue"));
    assert_eq!((&red["before"]["held"], &red["after"]["held"]), (&4.0.into(), &2.0.into()));
    assert_eq!((&blue["before"]["held"], &blue["after"]["held"]), (&0.0.into(), &2.0.into()));
    let made = simulate(&cluster, &["--if", "project red guaranteed=3"]);
    assert_eq!(project(&made, "red")["after"]["guaranteed"], 2.4, "{made}");
    let made = simulate(&cluster, &["--if", "add 1 node x 1 h100"]);
    assert_eq!(what(&made, &waits), "starts", "{made}");
    let made = simulate(&cluster, &["--if", "add 1 node x 1 h100", "--if", "hold 5"]);
    assert_eq!(what(&made, &waits), "held", "{made}");
    // Without changes, over half an hour more than the jobs' limits.
    let made = simulate(&cluster, &["--for", "90m"]);
    assert_eq!(what(&made, &waits), "starts", "{made}");
    let made = simulate(&cluster, &["--for", "1m", "--if", "policy preset=fifo"]);
    assert!(made["until"].is_string(), "{made}");
    assert_eq!(state_of(&cluster), before, "nothing was done");
    let table = cluster.gpool(["simulate", "--if", "cancel 1"]).ok();
    assert!(table.contains("BEFORE") && table.contains("not at once") || table.contains("starts"));
    assert!(table.contains("red") && table.contains("IN USE"), "{table}");
}

#[test]
fn the_queue_and_past_jobs_are_compared_with_and_without_changes() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let flags = ["--gpus", "1", "--time", "10m"];
    let past: Vec<String> = (0..3).map(|_| cluster.sh(&flags, "sleep 0.5")).collect();
    for id in &past {
        cluster.until_ended(id);
    }
    // With another name, its length does not follow from theirs.
    let flags = ["--gpus", "1", "--time", "30m", "--name", "long"];
    let runs = cluster.sh(&flags, "sleep 1000");
    cluster.until_is(&runs, "running");
    let waiting = [cluster.sh(&flags, "true"), cluster.sh(&flags, "true")];
    let made = simulate(&cluster, &["--for", "4h", "--if", "add 1 node x 2 h100"]);
    let queue = &made["queue"];
    assert_eq!((queue["n_jobs"].as_u64(), made["past"].as_object()), (Some(2), None), "{made}");
    let (before, after) = (&queue["before"], &queue["after"]);
    assert_eq!((&before["n_gpus"], &after["n_gpus"]), (&1.into(), &3.into()), "{made}");
    assert!(before["wait_p50_s"].as_f64().unwrap() > 60.0, "{made}");
    assert_eq!(after["wait_p90_s"].as_f64(), Some(0.0), "{made}");
    assert_eq!(queue["paired"]["n_sooner"].as_u64(), Some(2), "{made}");
    assert!(queue["paired"]["mean_s"].as_f64().unwrap() < -60.0, "{made}");
    // Nothing starts within a minute.
    let made = simulate(&cluster, &["--for", "1m"]);
    let before = &made["queue"]["before"];
    assert_eq!((before["wait_p50_s"].as_f64(), &before["n_waiting"]), (None, &2.into()), "{made}");
    assert_eq!(before["utilization"].as_f64(), Some(1.0), "{made}");
    let change = ["--if", "add 1 node x 2 h100", "--past", "1d"];
    let made = simulate(&cluster, &change);
    let again = &made["past"];
    assert_eq!((again["n_jobs"].as_u64(), &made["queue"]), (Some(3), &Value::Null), "{made}");
    let wait = |which: &str| again[which]["wait_p90_s"].as_f64().unwrap();
    assert!(wait("before") > 0.4 && wait("after") < 0.1, "{made}");
    let warned = again["warnings"].to_string();
    assert!(warned.contains("Only 3 jobs") && warned.contains("3 that have not ended"), "{made}");
    let text = cluster.gpool([&["simulate"], &change[..]].concat()).ok();
    assert!(text.contains("wait, 90th percentile") && text.contains("Past jobs"), "{text}");
    for id in &waiting {
        cluster.until_is(id, "pending");
    }
    let fixed = ["simulate", "--past", "1d", "--if", "cancel 4"];
    cluster.gpool(fixed).refused(2, &["a history, which has fixed jobs"]);
    cluster.gpool(["simulate", "--past", "99d"]).refused(2, &["90d"]);
}

#[test]
fn invalid_and_refused_changes_are_errors_that_name_the_valid_ones() {
    let (cluster, _, _) = lent();
    let here = Here::of(cluster.socket().to_str().unwrap());
    let refused = |change: &str, code: u8, words: &[&str]| {
        here.refused(&["simulate", "--if", change], code, words);
    };
    refused("projct red gpus=1", 2, &["project, drain, undrain", "did you mean"]);
    refused("project rde gpus=1", 6, &["GP0602"]);
    refused("project red guaranted=1", 2, &["guarant"]);
    refused("drain n9", 6, &["n9"]);
    refused("add 2 nodes x 8 z9", 2, &["no GPU here is", "H100"]);
    refused("policy preset=ffo", 2, &["ffo"]);
    refused("cancel 99", 6, &["99"]);
    refused("submit gpus=2 projct=red", 2, &["projct"]);
    refused("", 2, &["the change is empty"]);
    // All or nothing, in order.
    let both = ["simulate", "--if", "cancel 1", "--if", "cancel 99"];
    here.refused(&both, 6, &["99"]);
    here.refused(&["simulate", "--for", "9d"], 2, &["48h"]);
    here.refused(&["simulate", "--for", "soon"], 2, &["for"]);
}
