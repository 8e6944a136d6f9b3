//! The output of jobs, and the ways to read it.

use crate::harness::{Cluster, Gate, until_so};

#[test]
fn following_ends_with_the_job() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &format!("echo one; {0}; echo two; {0}; printf three", gate.line()));
    let follow = cluster.start(["logs", "-f", &id]);
    follow.until_says("one");
    gate.open();
    follow.until_says("two");
    assert_eq!(cluster.stdout_of(&id), "one\ntwo\n");
    gate.open();
    assert_eq!(follow.end().ok(), "one\ntwo\nthree");
}

#[test]
fn following_begins_before_the_job_does() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["--hold"], "echo hello");
    let follow = cluster.start(["logs", "-f", &id]);
    cluster.gpool(["release", &id]).ok();
    assert_eq!(follow.end().ok(), "hello\n");
}

#[test]
fn tail_streams_and_attempts_are_chosen() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&[], "seq 1 100; echo wrong >&2");
    cluster.until_ended(&id);
    assert_eq!(cluster.gpool(["logs", &id, "--tail", "3"]).ok(), "99\n100\nwrong\n");
    assert_eq!(cluster.gpool(["logs", &id, "--tail", "0"]).ok(), "");
    assert_eq!(cluster.gpool(["logs", &id, "--tail", "1000"]).ok().lines().count(), 101);
    assert_eq!(cluster.gpool(["logs", &id, "--stdout", "--tail", "2"]).ok(), "99\n100\n");
    assert_eq!(cluster.gpool(["logs", "--stderr", &id]).ok(), "wrong\n");
    assert_eq!(cluster.gpool(["logs", &format!("{id}#1"), "--tail", "1"]).ok(), "wrong\n");
    cluster.gpool(["logs", &format!("{id}#2")]).refused(6, &["2"]);
    cluster.gpool(["logs", "99"]).refused(6, &["99"]);
}

#[test]
fn both_streams_come_in_the_order_of_writing() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let line = "echo a; echo b >&2; GATE; echo c; GATE; echo d >&2; GATE; echo e";
    let id = cluster.sh(&[], &line.replace("GATE", &gate.line()));
    let follow = cluster.start(["logs", "-f", &id]);
    for words in ["b\n", "c\n", "d\n"] {
        follow.until_says(words);
        gate.open();
    }
    assert_eq!(follow.end().ok(), "a\nb\nc\nd\ne\n");
    let logs = |flags: &[&str]| cluster.gpool(["logs", &id].iter().chain(flags)).ok();
    assert_eq!(logs(&[]), "a\nb\nc\nd\ne\n");
    assert_eq!(logs(&["--tail", "2"]), "d\ne\n");
    assert_eq!((logs(&["--stdout"]), logs(&["--stderr"])), ("a\nc\ne\n".into(), "b\nd\n".into()));
    // Without a record of the order, standard output comes first.
    let order = cluster.state().join(format!("jobs/{id}/1/order"));
    let kept = std::fs::read_to_string(&order).unwrap();
    assert_eq!(kept, "2 0\n2 2\n4 2\n4 4\n");
    std::fs::remove_file(&order).unwrap();
    assert_eq!(logs(&[]), "a\nc\ne\nb\nd\n");
    std::fs::write(&order, kept).unwrap();
    cluster.down(&[]);
    assert_eq!(cluster.gpool(["logs", &id]).out, "a\nb\nc\nd\ne\n", "from disk");
}

#[test]
fn a_job_that_waits_for_a_retry_shows_its_last_run() {
    let cluster = Cluster::new("none");
    let flags = ["--retry", "1", "--backoff", "1h"];
    let id = cluster.sh(&flags, "echo Traceback: run $GPOOL_ATTEMPT >&2; exit 3");
    until_so("it waits to run again", || cluster.job(&id).run.attempt == 2);
    let ran = cluster.gpool(["logs", &id]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Traceback: run 1\n"), "{ran:?}");
    assert!(ran.err.contains("run 2 of job 1 has not started; this is run 1"), "{ran:?}");
    let follow = cluster.start(["logs", "-f", &id]);
    follow.until_says("Traceback: run 1");
    cluster.gpool(["cancel", &id]).ok();
    assert_eq!(follow.end().ok(), "Traceback: run 1\n");
    let failed = cluster.sh(&[], "echo wrong >&2; exit 3");
    cluster.until_ended(&failed);
    let shown = cluster.gpool(["show", &failed]).ok();
    assert!(shown.contains(&format!("its output: gpool logs {failed}")), "{shown}");
}

#[test]
fn output_of_several_jobs_and_elements_is_labelled() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["--array", "0-2%1"], "echo $GPOOL_ARRAY_INDEX; echo two >&2");
    cluster.until_ended(&id);
    let of = |words: &[&str]| cluster.gpool([&["logs"], words].concat()).ok();
    let element = |index: u32| format!("1.{index}: {index}\n1.{index}: two\n");
    assert_eq!(of(&[&id]), [element(0), element(1), element(2)].concat());
    assert_eq!(of(&["1.1-2"]), [element(1), element(2)].concat());
    assert_eq!(of(&["-f", "--stderr", "1.0-0"]), "1.0: two\n");
    assert_eq!(of(&["1.2"]), "2\ntwo\n", "one job has no labels");
    let other = cluster.sh(&[], "echo alone");
    cluster.until_ended(&other);
    assert_eq!(of(&[&other, "1.0"]), format!("{other}: alone\n{}", element(0)));
    let ran = cluster.gpool(["logs", "99", &other]);
    assert_eq!((ran.code, ran.out), (6, format!("{other}: alone\n")));
    assert!(ran.err.contains("can't show the output of 1 of 2 jobs"), "{}", ran.err);
    let held = cluster.sh(&["--array", "0-2", "--hold"], "true");
    assert!(cluster.gpool(["logs", &held]).err.contains("no element of job 3 has started"));
}

#[test]
fn since_leaves_out_older_output() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &format!("echo old; {}; echo new", gate.line()));
    until_so("the first is written", || {
        cluster.until_is(&id, "running");
        cluster.stdout_of(&id) == "old\n"
    });
    gate.open();
    cluster.until_ended(&id);
    assert_eq!(cluster.gpool(["logs", &id, "--since", "1h"]).ok(), "old\nnew\n");
    assert_eq!(cluster.gpool(["logs", &id, "--since", "2999-01-01"]).ok(), "");
    cluster.gpool(["logs", &id, "--since", "whenever"]).refused(2, &["--since", "whenever"]);
}

#[test]
fn binary_output_is_unchanged() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&[], "printf 'a\\000\\377\\033[31mb'");
    cluster.until_ended(&id);
    let out = cluster.command().args(["logs", &id]).output().unwrap();
    assert_eq!(out.stdout, b"a\0\xff\x1b[31mb");
}
