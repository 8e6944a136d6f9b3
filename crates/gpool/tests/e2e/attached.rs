//! `gpool run`: its output and its exit code.

use rustix::process::Signal;

use crate::harness::{Cluster, Gate, skip, until_so};
use crate::recovery::n_asked;

#[test]
fn both_streams_are_shown_and_the_exit_code_is_the_jobs() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let ran =
        cluster.gpool(["run", "-q", "--gpus", "1", "--", "sh", "-c", "echo o; echo e >&2; exit 7"]);
    assert_eq!((ran.out.as_str(), ran.code), ("o\n", 7), "{ran:?}");
    assert!(ran.err.contains("e\n"), "{ran:?}");
    assert_eq!(cluster.gpool(["run", "--", "true"]).code, 0);
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "kill -SEGV $$"]).code, 139);
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "kill -KILL $$"]).code, 137);
}

#[test]
fn output_comes_as_it_is_written_and_whole() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo first; {}; seq 1 200000; printf end", gate.line());
    let run = cluster.start(["run", "--", "sh", "-c", &line]);
    run.until_says("first");
    gate.open();
    let out = run.end().ok();
    let mut expected = "first\n".to_owned();
    for number in 1..=200_000 {
        expected.push_str(&format!("{number}\n"));
    }
    expected.push_str("end");
    assert_eq!(out.len(), expected.len());
    assert!(out == expected);
}

#[test]
fn a_time_limit_is_124() {
    let cluster = Cluster::new("none");
    let ran = cluster.gpool(["run", "--time", "1s", "--grace", "1s", "--", "sleep", "1000"]);
    assert_eq!(ran.code, 124, "{ran:?}");
    assert!(ran.err.contains("time limit"), "{ran:?}");
    assert_eq!(cluster.job("1").state.as_str(), "timed_out");
}

#[test]
fn a_job_that_can_not_be_started_exits_with_125() {
    let cluster = Cluster::new("none");
    let ran = cluster.gpool(["run", "--", "no-such-program-at-all"]);
    assert_eq!(ran.code, 125, "{ran:?}");
    assert!(ran.err.contains("no-such-program-at-all"), "{ran:?}");
    let ran = cluster.gpool(["run", "--cwd", "/no/such/folder", "--", "true"]);
    assert!([2, 125].contains(&ran.code) && ran.err.contains("/no/such/folder"), "{ran:?}");
    std::fs::write(cluster.work().join("not-executable"), "#!/bin/sh\n").unwrap();
    let ran = cluster.gpool(["run", "--", "./not-executable"]);
    assert_eq!(ran.code, 125, "{ran:?}");
}

#[test]
fn out_of_memory_exits_with_137_and_is_reported() {
    let cluster = Cluster::new("none");
    let doctor = cluster.gpool(["doctor", "-o", "json"]);
    let memory = doctor.out.split("limit memory").nth(1).unwrap_or_default();
    if !memory[..memory.len().min(200)].contains("cgroup") {
        return skip("no memory cgroup can be used here");
    }
    let ran =
        cluster.gpool(["run", "--mem", "64M", "--", "sh", "-c", "head -c 400m /dev/zero | tail"]);
    let job = cluster.job("1");
    assert_eq!(job.run.cause.as_deref(), Some("oom"), "{job:?}");
    assert_eq!(ran.code, 137, "{ran:?}");
    assert!(ran.err.contains("memory"), "{ran:?}");
    assert!(cluster.client().ready().is_ok());
}

#[test]
fn one_interrupt_leaves_the_job() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo began; {}; echo went on", gate.line());
    let run = cluster.start(["run", "--", "sh", "-c", &line]);
    run.until_says("began");
    run.signal(Signal::INT);
    let ran = run.end();
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.err.contains("detached; job 1 continues"), "{ran:?}");
    assert_eq!(cluster.job("1").state.as_str(), "running");
    gate.open();
    assert_eq!(cluster.until_ended("1").run.exit_code, Some(0));
    assert_eq!(cluster.stdout_of("1"), "began\nwent on\n");
}

#[test]
fn two_interrupts_cancel_it() {
    let cluster = Cluster::new("none");
    let run = cluster.start(["run", "--grace", "1s", "--", "sh", "-c", "echo began; sleep 1000"]);
    run.until_says("began");
    run.signal(Signal::INT);
    run.until_says("Ctrl-C again");
    run.signal(Signal::INT);
    let ran = run.end();
    assert_eq!(ran.code, 143, "{ran:?}");
    assert_eq!(cluster.job("1").state.as_str(), "cancelled");
}

#[test]
fn a_terminated_run_ends_its_job() {
    let cluster = Cluster::new("none");
    let run = cluster.start(["run", "--", "sh", "-c", "echo began; exec sleep 1000"]);
    run.until_says("began");
    run.signal(Signal::TERM);
    let ran = run.end();
    assert_eq!(ran.code, 143, "{ran:?}");
    assert_eq!(cluster.job("1").state.as_str(), "cancelled");
}

#[test]
fn detached_it_prints_the_id_and_wait_gives_the_worst() {
    let cluster = Cluster::new("none");
    assert_eq!(cluster.gpool(["run", "--detach", "--", "sh", "-c", "exit 3"]).ok(), "1\n");
    cluster.sh(&[], "exit 5");
    cluster.sh(&[], "true");
    let ran = cluster.gpool(["wait", "1,2,3"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    cluster.sh(&[], "sleep 1000");
    let ran = cluster.gpool(["wait", "4", "--timeout", "1s"]);
    ran.refused(8, &["1 job did not end", "4"]);
    assert_eq!(cluster.job("4").state.as_str(), "running");
}

#[test]
fn a_server_restart_does_not_disturb_attached_clients() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo before; {}; echo after; exit 4", gate.line());
    let run = cluster.start(["run", "--", "sh", "-c", &line]);
    let follow = || cluster.start(["logs", "-f", "1"]);
    run.until_says("before");
    let (logs, wait) = (follow(), cluster.start(["wait", "1"]));
    logs.until_says("before");
    // The event streams of `run` and `wait`.
    until_so("both listen", || n_asked(&cluster, "/api/v1/events") >= 2);
    cluster.kill();
    gate.open();
    cluster.up();
    let ran = run.end();
    assert_eq!((ran.out.as_str(), ran.code), ("before\nafter\n", 4), "{ran:?}");
    assert_eq!(logs.end().ok(), "before\nafter\n");
    assert_eq!(wait.end().code, 4);
}

#[test]
fn a_wait_for_an_element_ends_when_it_is_cancelled_before_it_starts() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["--array", "0-3", "--hold"], "true");
    let element = format!("{id}.2");
    let wait = cluster.start(["wait", &element]);
    until_so("it listens", || n_asked(&cluster, "/api/v1/events") == 1);
    cluster.gpool(["cancel", &element]).ok();
    let ran = wait.end();
    assert!(ran.err.contains(&format!("job {element} cancelled")), "{ran:?}");
    assert_eq!(cluster.job(&format!("{id}.1")).state.as_str(), "held");
}
