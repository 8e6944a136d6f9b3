//! The output of lists for programs.

use serde_json::Value;

use crate::harness::Cluster;

/// The keys that every job has in the API.
const JOB_KEYS: [&str; 12] = [
    "id",
    "name",
    "user",
    "project",
    "state",
    "version",
    "submitted_at",
    "request",
    "placement",
    "run",
    "wait",
    "usage",
];

fn has_keys(item: &Value, keys: &[&str]) {
    for key in keys {
        assert!(item.get(key).is_some(), "{key} is not in {item}");
    }
}

fn is_utc(time: &Value) -> bool {
    time.as_str().is_some_and(|time| time.ends_with('Z') && time.contains('T'))
}

#[test]
fn a_job_in_json_has_the_promised_keys() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let running = cluster.sh(&["--gpus", "h100:2", "-J", "first"], "sleep 1000");
    cluster.until_is(&running, "running");
    let pending = cluster.sh(&["--gpus", "1"], "true");
    let queue = cluster.gpool(["queue", "-o", "json"]).json();
    assert_eq!(queue["apiVersion"], "gpool/v1");
    let items = queue["items"].as_array().unwrap();
    items.iter().for_each(|item| has_keys(item, &JOB_KEYS));
    let of = |id: &str| items.iter().find(|item| item["id"] == *id).unwrap();
    let first = of(&running);
    assert_eq!((&first["name"], &first["request"]["gpus"]), (&"first".into(), &"h100:2".into()));
    assert_eq!((&first["state"], &first["run"]["attempt"]), (&"running".into(), &1.into()));
    assert_eq!(first["project"], "default");
    assert_eq!(first["placement"][0]["node"], "lab1");
    assert_eq!(first["placement"][0]["devices"], serde_json::json!([0, 1]));
    assert!(first["placement"][0]["uuids"][1].as_str().unwrap().starts_with("GPU-"));
    assert!(is_utc(&first["submitted_at"]) && is_utc(&first["run"]["started_at"]), "{first}");
    assert_eq!(
        (&first["run"]["ended_at"], &first["run"]["exit_code"]),
        (&Value::Null, &Value::Null)
    );
    let second = of(&pending);
    // The forecast may or may not exist yet.
    assert_eq!(second["state"], "pending");
    assert_eq!(second["placement"], serde_json::json!([]));
    assert_eq!(second["wait"]["reasons"][0]["code"], "gpus_not_free");
    assert_eq!(second["wait"]["reasons"][0]["blocking"], true);
    let show = cluster.gpool(["show", &running, &pending, "-o", "json"]).json();
    assert_eq!(show["items"].as_array().unwrap().len(), 2);
    has_keys(&show["items"][0], &JOB_KEYS);
    // The same for an ended job.
    cluster.gpool(["cancel", &running]).ok();
    let job = cluster.until_ended(&pending);
    assert_eq!(job.run.exit_code, Some(0));
    let ended = cluster.gpool(["show", &pending, "--json"]).json();
    has_keys(&ended["items"][0], &JOB_KEYS);
    assert!(is_utc(&ended["items"][0]["run"]["ended_at"]));
}

#[test]
fn every_form_of_a_list_has_every_row() {
    let cluster = Cluster::new("none");
    cluster.submit(["--hold", "-J", "a, \"quoted\"", "--", "true"]);
    cluster.submit(["--hold", "-J", "b", "--", "true"]);
    assert_eq!(cluster.gpool(["queue", "-o", "name"]).ok(), "1\n2\n");
    let csv = cluster.gpool(["queue", "-o", "csv", "--format", "id,name,state"]).ok();
    assert_eq!(csv, "id,name,state\n1,\"a, \"\"quoted\"\"\",held\n2,b,held\n");
    // A spreadsheet would compute these.
    let formulas = ["=1+1", "+1+1", "-1+1", "@SUM(A1)"];
    let submit = |name: &&str| {
        let name = format!("--name={name}");
        cluster.submit(["--hold", &name, "--", "true"])
    };
    let ids: Vec<String> = formulas.iter().map(submit).collect();
    for form in ["csv", "tsv"] {
        let text = cluster.gpool(["queue", "-o", form, "--format", "name"]).ok();
        let found: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(found, formulas.map(|name| format!("'{name}")));
    }
    cluster.gpool(["cancel"].into_iter().chain(ids.iter().map(String::as_str))).ok();
    let jsonl = cluster.gpool(["queue", "-o", "jsonl"]).ok();
    let lines: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[1]["id"]), (2, &"2".into()));
    let table = cluster.gpool(["queue"]).ok();
    assert!(table.starts_with("ID") && table.contains("a, \"quoted\""), "{table}");
    assert!(!table.contains('\u{1b}'), "no colour off a terminal: {table:?}");
    let filtered = cluster.gpool(["queue", "--filter", "name=b", "-o", "name"]).ok();
    assert_eq!(filtered, "2\n");
    let sorted = cluster.gpool(["q", "--sort", "-id", "-o", "name"]).ok();
    assert_eq!(sorted, "2\n1\n");
    assert_eq!(cluster.gpool(["ps", "-n", "1", "-o", "name"]).ok(), "1\n");
    assert_eq!(cluster.gpool(["queue", "-s", "pending", "-o", "name"]).ok(), "");
}

#[test]
fn gpus_nodes_and_status_are_documents_too() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&id, "running");
    let gpus = cluster.gpool(["gpus", "--json"]).json();
    assert_eq!(gpus["apiVersion"], "gpool/v1");
    let first = &gpus["items"][0];
    has_keys(first, &["node", "index", "uuid", "model", "state", "memory_total", "memory_used"]);
    has_keys(
        first,
        &["memory_free", "utilization", "temperature_c", "power_w", "pci_bus", "minor"],
    );
    has_keys(first, &["numa", "links", "mig", "health_why", "allowed", "job", "user", "unmanaged"]);
    assert_eq!((&first["state"], &first["job"]), (&"busy".into(), &id.as_str().into()));
    assert_eq!(gpus["items"][1]["state"], "free");
    let nodes = cluster.gpool(["nodes", "-o", "json"]).json();
    assert_eq!(nodes["items"][0]["name"], "lab1");
    let status = cluster.gpool(["status", "--json"]).json();
    assert_eq!(status["apiVersion"], "gpool/v1");
    assert_eq!(status["jobs"]["running"], 1);
    assert_eq!(status["gpus"]["busy"], 1);
    assert_eq!(status["pid"], cluster.server_pid());
    let version = cluster.gpool(["version", "--json"]).json();
    assert_eq!(version["apiVersion"], "gpool/v1");
    assert!(cluster.gpool(["doctor", "--json"]).json()["items"].is_array());
}

#[test]
fn why_gives_reasons_as_data_and_in_words() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let holder = cluster.sh(&["--gpus", "3"], "sleep 1000");
    cluster.until_is(&holder, "running");
    let id = cluster.sh(&["--gpus", "2", "-J", "big"], "true");
    let why = cluster.gpool(["why", &id, "-o", "json"]).json();
    let why = &why["items"][0];
    let reason = &why["reasons"][0];
    assert_eq!(reason["blocking"], true);
    assert_eq!((&reason["need"], &reason["free"]), (&2.into(), &1.into()), "{reason}");
    assert_eq!(why["nodes"][0]["n_free"], 1);
    assert_eq!(why["nodes"][0]["devices"][0]["job"], holder.as_str());
    let text = cluster.gpool(["why", &id]).ok();
    assert!(
        text.contains("big")
            && text.contains("lab1")
            && text.contains("It needs 2 GPUs, and 1 is free."),
        "{text}"
    );
    cluster.gpool(["why", "77"]).refused(6, &["77"]);
}

#[test]
fn errors_are_json_too_if_asked_and_on_standard_error() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let ran = cluster.gpool(["submit", "--json", "--gpus", "2", "--", "true"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(error["error"]["code"], "GP0412");
    assert!(!error["error"]["why"].as_array().unwrap().is_empty());
    assert!(!error["error"]["try"].as_array().unwrap().is_empty());
    let ran = cluster.gpool(["show", "77", "--json"]);
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((ran.code, &error["error"]["code"]), (6, &"GP0601".into()));
}

#[test]
fn watching_on_a_pipe_prints_changes() {
    let cluster = Cluster::new("none");
    let id = cluster.submit(["--hold", "--", "true"]);
    let watch = cluster.start(["queue", "--watch=100ms", "--state", "all", "-o", "jsonl"]);
    watch.until_says("\"held\"");
    cluster.gpool(["release", &id]).ok();
    watch.until_says("\"succeeded\"");
    // Not SIGINT, which is ignored if tests run in the background.
    watch.signal(rustix::process::Signal::TERM);
    let ran = watch.end();
    for line in ran.out.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}

#[test]
fn an_empty_list_has_the_same_keys_as_a_full_one() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let refused =
        |words: &[&str]| cluster.gpool(words).refused(2, &["\"foo\"", "priority", "GP0217"]);
    refused(&["queue", "--filter", "foo=1"]);
    refused(&["queue", "--sort", "foo"]);
    let head = |out: String| out.lines().next().map(str::to_owned);
    let empty = head(cluster.gpool(["queue", "-o", "csv"]).ok());
    cluster.submit(["--hold", "--", "true"]);
    assert_eq!(empty, head(cluster.gpool(["queue", "-o", "csv"]).ok()));
    // Adjacent GPUs that new jobs may not use are one row.
    cluster.gpool(["gpus", "allow", "0"]).ok();
    let has = |out: &str, gpus: &str, state: &str| {
        out.lines().any(|line| line.contains(gpus) && line.contains(state))
    };
    let out = cluster.gpool(["gpus"]).ok();
    assert!(has(&out, " 1–3 ", "not allowed") && !out.contains("drained"), "{out}");
    assert!(cluster.gpool(["gpus", "1"]).ok().contains("gpu_not_allowed"));
    // A job keeps a GPU that was closed since.
    let runs = cluster.submit(["--gpus", "1", "--", "sleep", "1000"]);
    cluster.until_is(&runs, "running");
    cluster.gpool(["gpus", "allow", "1"]).ok();
    assert_eq!(cluster.gpu_state(0), "busy");
    let out = cluster.gpool(["gpus"]).ok();
    assert!(has(&out, " 0 ", "busy (not allowed)") && has(&out, " 2,3 ", "not allowed"), "{out}");
    assert!(out.contains("1 in use and not allowed for new jobs"), "{out}");
    let metrics = cluster.client().metrics().unwrap();
    let closed = metrics.lines().filter(|it| it.contains(r#"state="not_allowed""#));
    assert_eq!(closed.filter(|it| it.ends_with(" 1.0")).count(), 2, "{metrics}");
}

#[test]
fn allowed_gpus_are_reported_with_their_node() {
    let cluster = Cluster::new("2x(sim:4xH100-80G)");
    let told = cluster.gpool(["gpus", "allow", "--node", "lab1-2", "0,1"]).err;
    assert!(
        told.contains("new jobs may use GPU 0,1 of lab1-2") && !told.contains("lab1-1"),
        "{told}"
    );
    let told = cluster.gpool(["gpus", "allow", "--node", "lab1-1", "none"]).err;
    assert!(told.contains("new jobs may use no GPU of lab1-1"), "{told}");
}

#[test]
fn free_gpus_with_guests_have_rows_of_their_own() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let [_, guest] = crate::spread::notebooks(&cluster);
    let is_of = |line: &&str| line.contains("free");
    let out = cluster.gpool(["gpus"]).ok();
    let rows: Vec<&str> = out.lines().filter(is_of).collect();
    assert!(rows[0].contains(" 1 ") && rows[0].contains(&format!("{guest} (guest)")), "{out}");
    assert!(rows[1].contains(" 2,3 ") && !rows[1].contains("guest"), "{out}");
}

#[test]
fn yaml_is_the_json_in_blocks() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.submit(["--hold", "-J", "yes: no", "--note", "1", "--", "true"]);
    let yaml = cluster.gpool(["queue", "-o", "yaml"]).ok();
    assert!(yaml.starts_with("apiVersion: gpool/v1\nitems:\n  - id: \"1\"\n"), "{yaml}");
    assert!(yaml.contains("\n    name: \"yes: no\"\n"), "{yaml}");
    assert!(
        yaml.contains("\n      note: \"1\"\n") && yaml.contains("\n    placement: []\n"),
        "{yaml}"
    );
    let none = cluster.gpool(["queue", "-s", "running", "-o", "yaml"]).ok();
    assert_eq!(none, "apiVersion: gpool/v1\nitems: []\n");
    for words in [
        &["show", &id][..],
        &["why", &id],
        &["report", &id],
        &["status"],
        &["gpus"],
        &["nodes"],
        &["history"],
        &["reserve", "list"],
        &["notify"],
    ] {
        let yaml = cluster.gpool(words.iter().chain(&["-o", "yaml"])).ok();
        assert!(yaml.starts_with("apiVersion: gpool/v1\n"), "{words:?}: {yaml}");
    }
    let events = cluster.gpool(["events", &id, "-o", "yaml"]).ok();
    assert!(events.starts_with("---\n") && events.contains("type: submitted"), "{events}");
}

#[test]
fn times_use_the_given_zone_and_filters_apply() {
    let cluster = Cluster::new("none");
    let old = cluster.submit(["--", "true"]);
    cluster.until_ended(&old);
    let page = cluster.gpool(["--tz", "Asia/Tokyo", "show", &old]).ok();
    assert!(page.contains(" JST") && !page.contains(" UTC"), "{page}");
    let page = cluster.gpool(["show", &old, "--utc"]).ok();
    assert!(page.contains(" UTC"), "{page}");
    cluster.gpool(["--tz", "Mars/Olympus", "queue"]).refused(2, &["Mars/Olympus", "Europe/Berlin"]);
    cluster.gpool(["--tz", "UTC", "--utc", "queue"]).refused(2, &["--utc"]);
    // Times in filters are in the same zone.
    let all = |words: &[&str]| cluster.gpool(words).ok();
    assert_eq!(all(&["history", "--since", "1h", "-o", "name"]), format!("{old}\n"));
    assert_eq!(all(&["history", "--until", "1h", "-o", "name"]), "");
    assert!(all(&["events", &old, "--since", "1h"]).contains("submitted"));
    assert_eq!(all(&["events", &old, "--until", "1h"]), "");
    assert!(all(&["report", &old, "--since", "1h"]).contains("true"));
    assert_eq!(all(&["report", &old, "--until", "1h"]), "");
    for verb in ["history", "queue"] {
        cluster.gpool([verb, "--since", "whenever"]).refused(2, &["--since", "whenever"]);
    }
    for verb in ["events", "report"] {
        cluster.gpool([verb, &old, "--until", "whenever"]).refused(2, &["--until", "whenever"]);
    }
}

#[test]
fn status_lists_reservations() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let reserve = ["reserve", "create", "--devices", "lab1:0", "--user", "root", "--name", "demo"];
    cluster.gpool(reserve).ok();
    let page = cluster.gpool(["status"]).ok();
    let words = "  reserved   demo active: lab1:0 for user root until released\n";
    assert!(page.contains(words), "{page}");
    let json = cluster.gpool(["status", "--json"]).json();
    assert_eq!(json["reservations"][0]["name"], "demo");
    cluster.gpool(["reserve", "release", "demo"]).ok();
    assert!(!cluster.gpool(["status"]).ok().contains("reserved"));
}
