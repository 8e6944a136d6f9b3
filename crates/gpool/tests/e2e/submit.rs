//! The environment of a job, and the output of `submit`.

use crate::harness::{Cluster, until_so};

#[test]
fn submit_prints_the_id_alone() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let ran = cluster.gpool(["submit", "--gpus", "1", "--", "true"]);
    assert_eq!((ran.out.as_str(), ran.code), ("1\n", 0), "{ran:?}");
    // A note beside the ID says that the job must wait.
    cluster.sh(&["--gpus", "1"], "sleep 1000");
    let ran = cluster.gpool(["submit", "--gpus", "1", "--", "true"]);
    assert_eq!(ran.out, "3\n");
    assert!(ran.err.contains("note: job 3 waits") && ran.err.contains("gpool why 3"), "{ran:?}");
    let ran = cluster.gpool(["submit", "-q", "--gpus", "1", "--", "true"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("4\n", ""));
}

#[test]
fn a_job_has_its_folder_environment_and_devices_by_uuid() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let ran = cluster.gpool([
        "run",
        "--gpus",
        "2",
        "--cpus",
        "1",
        "--mem",
        "1G",
        "--time",
        "5m",
        "-J",
        "named",
        "-e",
        "OWN=a b\nc",
        "--",
        "sh",
        "-c",
        "pwd; env",
    ]);
    let out = ran.ok();
    let gpus = cluster.gpool(["gpus", "-o", "json"]).json();
    let uuid = |index: usize| gpus["items"][index]["uuid"].as_str().unwrap().to_owned();
    let uuids = format!("{},{}", uuid(0), uuid(1));
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some(cluster.work().to_str().unwrap()));
    for expected in [
        &format!("CUDA_VISIBLE_DEVICES={uuids}"),
        &format!("NVIDIA_VISIBLE_DEVICES={uuids}"),
        &format!("GPOOL_GPU_UUIDS={uuids}"),
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "GPOOL_GPUS=2",
        "GPOOL_JOB_ID=1",
        "GPOOL_ATTEMPT=1",
        "GPOOL_JOB_NAME=named",
        "GPOOL_PROJECT=default",
        "GPOOL_NODE=lab1",
        "OWN=a b",
        "TERM=dumb",
    ] {
        assert!(out.lines().any(|line| line == expected), "{expected} is not in:\n{out}");
    }
    // Jobs find the server by `GPOOL_API` and `GPOOL_SOCKET`; `GPOOL_STATE_DIR` never reaches them.
    assert!(!out.contains("GPOOL_STATE_DIR="), "{out}");
}

#[test]
fn a_job_without_gpus_sees_none() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let line = "echo \"[${CUDA_VISIBLE_DEVICES-unset}]\"";
    let out = cluster.gpool(["run", "--", "sh", "-c", line]).ok();
    assert_eq!(out, "[]\n");
    let out = cluster.gpool(["run", "--gpus", "0", "--", "sh", "-c", line]).ok();
    assert_eq!(out, "[]\n");
}

#[test]
fn a_clean_environment_has_no_variables_of_the_caller() {
    let cluster = Cluster::new("none");
    let mut command = cluster.command();
    command.env("CANARY", "bird").env("GPOOL_SUBMIT_NAME", "of-the-caller");
    command.args(["run", "--clean-env", "-e", "MINE=1", "--", "env"]);
    let out = crate::harness::Running::start(&mut command, None).end().ok();
    assert!(!out.contains("CANARY") && !out.contains("GPOOL_SUBMIT"), "{out}");
    assert!(out.contains("MINE=1\n") && out.contains("HOME="), "{out}");
    assert_eq!(cluster.job("1").name, "of-the-caller");
}

#[test]
fn an_environment_is_kept_out_of_answers_and_logs() {
    let cluster = Cluster::new("none");
    let canary = "canary-3f9a1c";
    let id = cluster.submit(["-e", &format!("TOKEN={canary}"), "--", "sleep", "1000"]);
    cluster.until_is(&id, "running");
    for words in [&["show", &id, "-o", "json"][..], &["queue", "-o", "json"], &["events", "-n0"]] {
        assert!(!cluster.gpool(words).ok().contains(canary), "{words:?}");
    }
    assert!(!cluster.log().contains(canary));
    // The database has no secrets; the file with them can be read only by its owner.
    for name in ["store.db", "store.db-wal"] {
        let bytes = std::fs::read(cluster.state().join(name)).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(canary), "{name}");
    }
}

#[test]
fn a_dry_run_shows_the_result_and_does_nothing() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let out = cluster.gpool(["submit", "--dry-run", "--gpus", "2", "--", "true"]).ok();
    assert!(out.contains("would start at once on lab1:0,1"), "{out}");
    cluster.sh(&["--gpus", "1"], "sleep 1000");
    let out = cluster.gpool(["submit", "--dry-run", "--gpus", "2", "--", "true"]).ok();
    assert!(out.contains("would wait"), "{out}");
    cluster
        .gpool(["run", "--dry-run", "--gpus", "3", "--", "true"])
        .refused(4, &["no node has more than 2"]);
    assert_eq!(cluster.all_ids(), ["1"]);
}

#[test]
fn jobs_write_to_named_files() {
    let cluster = Cluster::new("none");
    std::fs::write(cluster.work().join("in"), "from a file\n").unwrap();
    let id = cluster.submit([
        "--stdin",
        "in",
        "--stdout",
        "out-%j",
        "--stderr",
        "err",
        "--",
        "sh",
        "-c",
        "cat; echo wrong >&2",
    ]);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    let read = |name: &str| std::fs::read_to_string(cluster.work().join(name)).unwrap();
    assert_eq!(read("out-1"), "from a file\n");
    assert_eq!(read("err"), "wrong\n");
    cluster.gpool(["logs", &id]).refused(6, &["out-"]);
}

#[test]
fn flags_override_variables() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let submit = |words: &[&str]| {
        let mut command = cluster.command();
        command.env("GPOOL_SUBMIT_GPUS", "2").env("GPOOL_SUBMIT_HOLD", "1").args(words);
        crate::harness::Running::start(&mut command, None).end()
    };
    let id = submit(&["submit", "--", "true"]).ok();
    let job = cluster.job(id.trim());
    assert_eq!((job.request.gpus_text(), job.state.as_str()), ("2", "held"));
    let id = submit(&["submit", "--gpus", "1", "--", "true"]).ok();
    assert_eq!(cluster.job(id.trim()).request.gpus_text(), "1");
}

#[test]
fn unused_input_gives_a_warning() {
    let cluster = Cluster::new("none");
    let words = "jobs do not get standard input";
    let piped = |verb: &[&str]| cluster.gpool_reading(verb, b"x\n");
    let ran = piped(&["run", "--", "cat"]);
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains(words), "{ran:?}");
    assert!(piped(&["submit", "--", "cat"]).err.contains(words));
    // The job has other input, or the input is the script.
    assert!(!piped(&["run", "--stdin", "/dev/null", "--", "cat"]).err.contains(words));
    let ran = cluster.gpool_reading(["submit", "-"], b"#!/bin/sh\n");
    assert!(ran.code == 0 && !ran.err.contains(words), "{ran:?}");
    assert!(!cluster.gpool(["run", "--", "cat"]).err.contains(words));
}

#[test]
fn variables_of_a_waiting_job_can_change() {
    let cluster = Cluster::new("none");
    let flags = ["--hold", "-e", "A=1", "-e", "B=1"];
    let id = cluster.sh(&flags, "echo $A $B $C; exec sleep 1000");
    let ran = cluster.gpool(["edit", &id, "-e", "A=2", "--env", "C=3"]);
    assert!(ran.err.contains("variable A changed · variable C changed"), "{ran:?}");
    let patch: gpool_wire::JobPatch =
        serde_json::from_str(r#"{"environment": {"B": "x y"}}"#).unwrap();
    cluster.client().edit(&id, &patch, None).unwrap();
    cluster.gpool(["edit", &id, "-e", "GPOOL_NO_SUCH"]).refused(2, &["no such variable"]);
    let events = cluster.gpool(["events", &id]).ok();
    assert!(events.contains("changed: environment") && !events.contains("x y"), "{events}");
    let audit = cluster.gpool(["audit"]).ok();
    assert!(audit.matches("PATCH").count() == 2 && !audit.contains("x y"), "{audit}");
    cluster.gpool(["release", &id]).ok();
    cluster.until_is(&id, "running");
    until_so("it has written", || cluster.stdout_of(&id) == "2 x y 3\n");
    cluster.gpool(["edit", &id, "-e", "A=4"]).refused(7, &["running"]);
    cluster.gpool(["cancel", &id]).ok();
}
