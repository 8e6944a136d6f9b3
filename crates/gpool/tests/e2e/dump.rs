//! `gpool debug dump`: the data for a fault report, without any text that users wrote.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::harness::{Cluster, Gate, until_so};
use crate::recovery::{says, waits_at};

const CANARY: &str = "canary-51f0";

/// Writes a dump into this file and checks that it has no text of a user.
fn dump(cluster: &Cluster, name: &str) -> Value {
    let ran = cluster.gpool(["debug", "dump", "-o", name]);
    says(&ran, &[name, "in it:", "Check it before you send it"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let path = cluster.work().join(name);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(path).unwrap();
    assert!(!text.contains(CANARY), "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_dump_has_what_a_report_needs_and_nothing_that_users_wrote() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let variable = format!("SECRET={CANARY}");
    let line = format!("echo {CANARY} $SECRET; {}", waits_at(&gate));
    let flags = ["--note", CANARY, "-J", CANARY, "-e", &variable, "--gpus", "1"];
    let words = flags.iter().copied().chain(["--", "sh", "-c", &line]);
    let id = cluster.submit(words.clone());
    let script = cluster.work().join("script.sh");
    std::fs::write(&script, format!("#!/bin/sh\n# {CANARY}\necho {CANARY}\n")).unwrap();
    cluster.submit(words.take(8).chain(["script.sh"]));
    let failed = cluster.submit(["--", &format!("/no-such-{CANARY}")]);
    until_so("it writes", || cluster.stdout_of(&id).contains(CANARY));
    cluster.until_ended(&failed);
    let live = dump(&cluster, "live.json");
    for part in [
        "machine",
        "doctor",
        "settings",
        "server",
        "recovery",
        "nodes",
        "gpus",
        "queue",
        "ended_badly",
        "metrics",
        "state",
        "journal",
        "scenario",
        "shepherds",
        "case",
        "checksum",
    ] {
        assert!(!live[part].is_null(), "{part}: {}", live["missing"]);
    }
    assert_eq!(live["queue"][0]["id"], *id);
    assert!(live["queue"][1]["wait.reasons"][0]["text"].is_string(), "{}", live["queue"]);
    assert_eq!(live["ended_badly"][0]["run.cause"], "launch_failed");
    let journal = live["journal"].to_string();
    for what in ["server started, term 1", "submit 1 jobs", "start 1#1 on lab1 (1 GPUs)"] {
        assert!(journal.contains(what), "{what}: {journal}");
    }
    assert!(live["scenario"].to_string().contains("job j1"), "{}", live["scenario"]);
    assert_eq!(live["shepherds"][0]["state"], "runs");
    cluster.gpool(["debug", "dump", "-o", "live.json"]).refused(1, &["live.json", "GP0218"]);
    cluster.gpool(["debug", "dump", "-o", "no/such/folder.json"]).refused(1, &["GP0218"]);
    assert_eq!(cluster.gpool(["debug"]).code, 2);
    cluster.gpool(["debug", "dmup"]).refused(2, &["dump"]);
    let out = cluster.gpool(["debug", "dump", "-o", "-", "--entries", "1"]).json();
    assert_eq!(out["journal"].as_array().unwrap().len(), 1);
    cluster.kill();
    let away = dump(&cluster, "away.json");
    assert!(away["missing"]["server"].as_str().unwrap().contains("no gpool server"), "{away}");
    assert!(!away["journal"].is_null() && !away["scenario"].is_null());
    assert_eq!(away["shepherds"][0]["id"], *id);
    let nowhere = Cluster::unstarted(&[]);
    let out = nowhere.gpool(["debug", "dump", "-o", "-"]).json();
    assert!(!out["doctor"].is_null() && !out["missing"]["journal"].is_null(), "{out}");
}
