//! Jobs of several tasks on nodes of their own: all start, and all end, together.

use crate::harness::{Cluster, Gate, until_so};

fn three_nodes() -> Cluster {
    Cluster::new("3x(sim:2xH100-80G)")
}

fn log(cluster: &Cluster, id: &str, rank: &str) -> String {
    cluster.gpool(["logs", id, "--rank", rank]).ok()
}

#[test]
fn each_task_runs_on_another_node_and_knows_the_others() {
    let cluster = three_nodes();
    let line = "echo $GPOOL_RANK of $WORLD_SIZE on $GPOOL_NODE with $GPOOL_GPUS";
    let id = cluster.sh(&["--nodes", "2", "--gpus", "2"], line);
    let job = cluster.until_ended(&id);
    assert_eq!(job.state.as_str(), "succeeded");
    let tasks = job.gang.expect("a gang").tasks;
    assert_eq!(tasks.len(), 2);
    assert_ne!(tasks[0].node, tasks[1].node);
    for (rank, task) in ["0", "1"].into_iter().zip(&tasks) {
        assert_eq!(log(&cluster, &id, rank), format!("{rank} of 2 on {} with 2\n", task.node));
    }
}

#[test]
fn one_that_fails_ends_the_others() {
    let cluster = three_nodes();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("test $GPOOL_RANK = 0 && exec sleep 1000; {}; exit 3", gate.line());
    let id = cluster.sh(&["--nodes", "3"], &line);
    until_so("all run", || cluster.job(&id).state.as_str() == "running");
    gate.open();
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.exit_code), ("failed", Some(3)));
}

#[test]
fn what_does_not_fit_whole_does_not_start_at_all() {
    let cluster = three_nodes();
    let holder = cluster.sh(&["--nodes", "2", "--gpus", "2"], "exec sleep 1000");
    until_so("it runs", || cluster.job(&holder).state.as_str() == "running");
    let id = cluster.sh(&["--nodes", "2", "--gpus", "2"], "true");
    let job = cluster.job(&id);
    assert_eq!(job.state.as_str(), "pending");
    assert_eq!(job.reasons[0].code, "nodes_not_free");
    cluster.gpool(["cancel", &holder]).ok();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    cluster.gpool(["submit", "--nodes", "4", "--gpus", "2", "--", "true"]).refused(4, &["4"]);
}

#[test]
fn a_killed_server_takes_all_tasks_over() {
    let mut cluster = three_nodes();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo begun; {}; echo done", gate.line());
    let id = cluster.sh(&["--nodes", "3", "--gpus", "1"], &line);
    until_so("all have begun", || {
        ["0", "1", "2"].into_iter().all(|rank| log(&cluster, &id, rank) == "begun\n")
    });
    cluster.kill();
    cluster.up();
    (0..3).for_each(|_| gate.open());
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    for rank in ["0", "1", "2"] {
        assert_eq!(log(&cluster, &id, rank), "begun\ndone\n");
    }
}
