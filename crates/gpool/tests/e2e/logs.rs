//! What jobs write, and how it is read.

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
    assert_eq!(cluster.gpool(["logs", &id, "--tail", "3"]).ok(), "98\n99\n100\n");
    assert_eq!(cluster.gpool(["logs", &id, "--tail", "0"]).ok(), "");
    assert_eq!(cluster.gpool(["logs", &id, "--tail", "1000"]).ok().lines().count(), 100);
    assert_eq!(cluster.gpool(["logs", "--stderr", &id]).ok(), "wrong\n");
    assert_eq!(cluster.gpool(["logs", &format!("{id}#1"), "--tail", "1"]).ok(), "100\n");
    cluster.gpool(["logs", &format!("{id}#2")]).refused(6, &["2"]);
    cluster.gpool(["logs", "99"]).refused(6, &["99"]);
}

#[test]
fn since_leaves_out_what_is_older() {
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
fn a_log_that_is_cut_says_so() {
    let cluster = Cluster::new("none");
    // More than any log may have; each line tells what it is.
    let id = cluster.sh(
        &[],
        "yes 0123456789abcdef0123456789abcdef0123456789abcdef | head -c 1200000000; echo LAST",
    );
    let job = cluster.until_ended(&id);
    assert_eq!(job.exit_code, Some(0), "{job:?}");
    let folder = cluster.state().join("jobs").join(&id).join("1");
    let kept = std::fs::metadata(folder.join("stdout")).unwrap().len();
    assert!(kept < 1_200_000_000, "kept {kept}");
    let tail = cluster.gpool(["logs", &id, "--tail", "3"]).ok();
    assert!(tail.contains("[gpool: the output limit of") && tail.contains("not kept"), "{tail}");
}

#[test]
fn what_is_no_text_comes_out_as_it_is() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&[], "printf 'a\\000\\377\\033[31mb'");
    cluster.until_ended(&id);
    let out = cluster.command().args(["logs", &id]).output().unwrap();
    assert_eq!(out.stdout, b"a\0\xff\x1b[31mb");
}
