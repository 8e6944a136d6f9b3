//! Groups of jobs: one row in the queue, one list, one cancel.

use crate::harness::{Cluster, Gate, until_so};

/// Two trials that run behind a gate, one that waits, and a job in no group.
fn tuning(cluster: &Cluster) -> Gate {
    let gate = Gate::new(cluster, "gate");
    for index in 0..3 {
        let group = format!("tuning/trial/{index}");
        let id = cluster.sh(&["--gpus", "1", "--group", &group], &gate.line());
        if index < 2 {
            cluster.until_is(&id, "running");
        }
    }
    cluster.sh(&["--gpus", "1", "--name", "alone"], &gate.line());
    gate
}

#[test]
fn the_row_of_a_group_has_the_gpus_of_all_its_jobs() {
    let cluster = Cluster::new("sim:2xA100-40G");
    let submit = |flags: &[&str]| {
        let all = [&["submit", "-q", "--hold", "--group", "mixed"][..], flags, &["--", "true"]];
        cluster.gpool(all.concat()).ok();
    };
    let row = || {
        let queue = cluster.gpool(["queue"]).ok();
        queue.lines().find(|line| line.contains("group:mixed")).expect("a row").to_owned()
    };
    submit(&["--gpus", "0"]);
    submit(&["--gpus", "0"]);
    assert!(row().contains(" 0 "), "{}", row());
    submit(&["--gpus", "0.5", "--array", "0-2"]);
    submit(&["--gpus", "1"]);
    assert!(row().contains(" 0.5 ×3 + 1 "), "{}", row());
}

#[test]
fn a_group_is_one_row_and_one_reference() {
    let cluster = Cluster::new("sim:2xA100-40G");
    let gate = tuning(&cluster);
    let queue = cluster.gpool(["queue"]).ok();
    let row = queue.lines().find(|line| line.contains("group:tuning")).expect("a row");
    assert!(row.contains("1 ×3") && row.contains("3 jobs · 1 pending · 2 running"), "{queue}");
    let others = queue.lines().filter(|line| line.contains(" sh ") || line.contains(" alone "));
    assert_eq!(others.count(), 1, "{queue}");
    // The list of the group has each job, and so do scripts.
    let listed = cluster.gpool(["queue", "--group", "tuning", "-o", "name"]).ok();
    assert_eq!(listed, "1\n2\n3\n");
    let lines = cluster.gpool(["queue", "--json"]).ok();
    assert_eq!(lines.matches("\"tuning/trial/").count(), 3, "{lines}");
    assert!(cluster.gpool(["show", "2"]).ok().contains("tuning/trial/1"));
    // Verbs take the group: jobs that have ended are left out.
    gate.open();
    until_so("one has ended", || ["1", "2"].iter().any(|id| cluster.job(id).state.is_end()));
    cluster.gpool(["cancel", "group:tuning"]).ok();
    let states = ["1", "2", "3"].map(|id| cluster.until_ended(id).state.as_str().to_owned());
    assert_eq!(states.iter().filter(|state| *state == "cancelled").count(), 2, "{states:?}");
    let history = cluster.gpool(["history", "--group", "tuning", "-o", "name"]).ok();
    assert_eq!(history.lines().count(), 3, "{history}");
    cluster.gpool(["cancel", "group:tuning"]).refused(6, &["tuning", "has not ended"]);
    cluster.gpool(["cancel", "group:tunning"]).refused(6, &["tunning"]);
    cluster.gpool(["submit", "--group", "a b", "--", "true"]).refused(2, &["--group", "a b"]);
    cluster.gpool(["show", "group:a/b"]).refused(2, &["group"]);
}

#[test]
fn a_group_is_kept_over_a_restart_and_in_a_retry() {
    let mut cluster = Cluster::new("none");
    cluster.sh(&["--group", "night/load/1"], "exit 3");
    cluster.until_ended("1");
    cluster.gpool(["retry", "1"]).ok();
    cluster.until_ended("2");
    cluster.kill();
    cluster.up();
    let ended = cluster.gpool(["queue", "--state", "all", "--group", "night", "-o", "name"]).ok();
    assert_eq!(ended.lines().count(), 2, "{ended}");
    assert_eq!(cluster.job("2").request.group.as_deref(), Some("night/load/1"));
}
