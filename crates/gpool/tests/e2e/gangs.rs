//! Jobs of several tasks on separate nodes: all tasks start and end together.

use crate::harness::{Cluster, Gate, until_so};

fn three_nodes() -> Cluster {
    Cluster::new("3x(sim:2xH100-80G)")
}

/// The jobs that join a job, with their states.
fn joiners(cluster: &Cluster, id: &str) -> Vec<(String, String)> {
    let all = cluster.gpool(["queue", "--json"]).json();
    let all = all["items"].as_array().expect("a list").clone();
    let joins = |job: &&serde_json::Value| job["joins"] == id;
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    all.iter().filter(joins).map(|job| (word(&job["id"]), word(&job["state"]))).collect()
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
fn tasks_run_on_any_node_with_free_capacity_and_know_their_neighbours() {
    let cluster = three_nodes();
    let holder = cluster.sh(&["--gpus", "1"], "exec sleep 1000");
    until_so("it runs", || cluster.job(&holder).state.as_str() == "running");
    let line = "echo $GPOOL_RANK of $WORLD_SIZE, $GPOOL_LOCAL_RANK on node $GPOOL_NODE_RANK of \
                $GPOOL_NUM_NODES: $SLURM_TASKS_PER_NODE";
    let id = cluster.sh(&["--tasks", "5", "--gpus", "1", "--compat", "slurm"], line);
    let job = cluster.until_ended(&id);
    assert_eq!(job.state.as_str(), "succeeded");
    let gang = job.gang.expect("a gang");
    assert!(gang.anywhere);
    let mut said: Vec<String> = (0..5).map(|rank| log(&cluster, &id, &rank.to_string())).collect();
    // The node with one free GPU comes first by its name.
    assert_eq!(said.remove(0), "0 of 5, 0 on node 0 of 3: 1,2(x2)\n");
    let places = ["1 of 5, 0 on node 1", "2 of 5, 1 on node 1", "3 of 5, 0 on node 2"];
    for (place, said) in places.into_iter().zip(&said) {
        assert_eq!(*said, format!("{place} of 3: 1,2(x2)\n"));
    }
    let shown = cluster.gpool(["show", &id]).ok();
    assert!(shown.contains("5 tasks, on any nodes"), "{shown}");
    let waits = cluster.sh(&["--tasks", "6", "--gpus", "1"], "true");
    let job = cluster.job(&waits);
    assert_eq!(
        (job.state.as_str(), job.wait.reasons[0].code.as_str()),
        ("pending", "tasks_not_free")
    );
    cluster.gpool(["cancel", &holder]).ok();
    assert_eq!(cluster.until_ended(&waits).state.as_str(), "succeeded");
    cluster
        .gpool(["submit", "--tasks", "7", "--gpus", "1", "--", "true"])
        .refused(4, &["--tasks 6"]);
    cluster.gpool(["submit", "--tasks", "2", "--nodes", "2", "true"]).refused(2, &["--nodes"]);
    cluster.gpool(["submit", "--tasks", "2-x", "true"]).refused(2, &["not a number of tasks"]);
}

#[test]
fn parts_of_different_shape_start_together_and_know_each_other() {
    let cluster = three_nodes();
    let holder = cluster.sh(&["--gpus", "2"], "exec sleep 1000");
    until_so("it runs", || cluster.job(&holder).state.as_str() == "running");
    let line = "echo $GPOOL_PART $GPOOL_PART_RANK of $GPOOL_PART_NUM_TASKS, $RANK of $WORLD_SIZE, \
                $GPOOL_GPUS GPUs, $OMP_NUM_THREADS cores, $GPOOL_PARTS";
    let parts = ["--part", "head:1xcpu,cpus=2", "--part", "worker:3x2"];
    let id = cluster.sh(&parts, line);
    let job = cluster.job(&id);
    let reason = &job.wait.reasons[0];
    assert_eq!((job.state.as_str(), reason.code.as_str()), ("pending", "nodes_not_free"));
    assert_eq!(reason.facts["part"], "worker");
    assert!(cluster.gpool(["why", &id]).ok().contains("Part worker: It needs 3 nodes"));
    let queue = cluster.gpool(["queue"]).ok();
    assert!(queue.contains("1xcpu+3x2"), "{queue}");
    cluster.gpool(["cancel", &holder]).ok();
    let job = cluster.until_ended(&id);
    assert_eq!(job.state.as_str(), "succeeded");
    let tasks = job.gang.expect("a gang").tasks;
    let names: Vec<&str> = tasks.iter().filter_map(|task| task.part.as_deref()).collect();
    assert_eq!(names, ["head", "worker", "worker", "worker"]);
    let workers: Vec<&str> = tasks[1..].iter().map(|task| task.node.as_str()).collect();
    let nodes = format!("head={} worker={}", tasks[0].node, workers.join(","));
    let head = format!("head 0 of 1, 0 of 4, 0 GPUs, 2 cores, {nodes}\n");
    assert_eq!(log(&cluster, &id, "0"), head);
    let shown = cluster.gpool(["show", &id]).ok();
    assert!(shown.contains("0 (head) on") && shown.contains("3 (worker) on"), "{shown}");
    let last = format!("worker 2 of 3, 3 of 4, 2 GPUs, cores, {nodes}\n");
    assert_eq!(log(&cluster, &id, "3"), last);
}

#[test]
fn parts_that_can_not_be_are_refused_with_the_way_out() {
    let cluster = three_nodes();
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let all = [&["submit"], args, &["--", "true"]].concat();
        cluster.gpool(all).refused(code, words);
    };
    refused(&["--part", "head"], 2, &["no part of a job", "head:1xcpu"]);
    refused(&["--part", "a:1xh100:x"], 2, &["a:1xh100:x"]);
    refused(&["--part", "a:1x1,gpu=2"], 2, &["cpus=, mem= or tasks="]);
    refused(&["--part", "a:1x1", "--gpus", "1"], 2, &["--gpus"]);
    refused(&["--part", "a:1x1"], 2, &["only one part"]);
    refused(&["--part", "a:1x1", "--part", "a:2x1"], 2, &["two parts have the name a"]);
    let torchrun = ["--part", "a:1x1", "--part", "b:2x1", "--torchrun"];
    refused(&torchrun, 2, &["torchrun", "does not go with parts"]);
    refused(&["--part", "a:1x1", "--part", "b:2x3"], 4, &["part b", "2"]);
    refused(&["--part", "a:2x2", "--part", "b:2x2"], 4, &["8 GPUs together", "6 GPUs"]);
    let id = cluster.sh(&["--hold", "--part", "a:1x1", "--part", "b:2x1"], "true");
    cluster.gpool(["edit", &id, "--gpus", "2"]).refused(2, &["has parts"]);
}

#[test]
fn a_failed_task_ends_the_others() {
    let cluster = three_nodes();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("test $GPOOL_RANK = 0 && exec sleep 1000; {}; exit 3", gate.line());
    let id = cluster.sh(&["--nodes", "3"], &line);
    until_so("all run", || cluster.job(&id).state.as_str() == "running");
    gate.open();
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.exit_code), ("failed", Some(3)));
}

#[test]
fn a_gang_that_does_not_fit_as_a_whole_does_not_start() {
    let cluster = three_nodes();
    let holder = cluster.sh(&["--nodes", "2", "--gpus", "2"], "exec sleep 1000");
    until_so("it runs", || cluster.job(&holder).state.as_str() == "running");
    let id = cluster.sh(&["--nodes", "2", "--gpus", "2"], "true");
    let job = cluster.job(&id);
    assert_eq!(job.state.as_str(), "pending");
    assert_eq!(job.wait.reasons[0].code, "nodes_not_free");
    cluster.gpool(["cancel", &holder]).ok();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    cluster.gpool(["submit", "--nodes", "4", "--gpus", "2", "--", "true"]).refused(4, &["4"]);
}

#[test]
fn a_new_server_takes_over_all_tasks() {
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

#[test]
fn an_elastic_job_grows_shrinks_and_ends_as_one() {
    let cluster = three_nodes();
    let line = "echo $RANK of $PET_NNODES by $PET_RDZV_ID; exec sleep 1000";
    let id = cluster.sh(&["--nodes", "1-3", "--gpus", "2", "--torchrun", "--time", "1h"], line);
    let running = |n: usize| {
        let all = joiners(&cluster, &id);
        all.len() == n && all.iter().all(|(_, state)| state == "running")
    };
    until_so("it has grown to three nodes", || running(2));
    let grown = joiners(&cluster, &id);
    let (first, second) = (&grown[0].0, &grown[1].0);
    for (job, rank) in [(&id, 0), (first, 1), (second, 2)] {
        until_so("it has written", || !cluster.gpool(["logs", job]).ok().is_empty());
        assert_eq!(cluster.gpool(["logs", job]).ok(), format!("{rank} of 1:3 by {id}.1\n"));
    }
    // Another job of the project gets the nodes beyond the minimum.
    let other = cluster.sh(&["--gpus", "2"], "exec sleep 1000");
    until_so("the other runs", || cluster.job(&other).state.as_str() == "running");
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    let waits = joiners(&cluster, &id).into_iter().find(|(_, state)| state == "pending");
    let (waits, _) = waits.expect("one of them is pending again");
    let earlier = cluster.gpool(["show", &waits]).ok();
    assert!(earlier.contains("because it only made another job larger"), "{earlier}");
    assert!(earlier.contains(&format!("joins job {id}")), "{earlier}");
    let events = cluster.gpool(["events", &id]).ok();
    assert!(events.contains(&format!("job {first} may join it")), "{events}");
    cluster.gpool(["cancel", &other]).ok();
    until_so("it has grown again", || running(2));
    cluster.gpool(["cancel", &id]).ok();
    until_so("nothing is left", || joiners(&cluster, &id).is_empty());
    let end = cluster.job(first);
    assert_eq!(end.run.cause.as_deref(), Some("gang_ended"));
}

#[test]
fn the_output_of_an_earlier_attempt_is_read_from_the_node_of_each_task() {
    let cluster = three_nodes();
    let gate = Gate::new(&cluster, "gate");
    let line = format!(
        "echo $GPOOL_RANK in $GPOOL_ATTEMPT; test $GPOOL_ATTEMPT = 2 && exit; {}; exit 1",
        gate.line()
    );
    let id = cluster.sh(&["--nodes", "3", "--gpus", "1", "--retry", "1", "--backoff", "0"], &line);
    let wrote = |rank| log(&cluster, &id, rank) == format!("{rank} in 1\n");
    until_so("all have written", || ["0", "1", "2"].into_iter().all(wrote));
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.attempt, 2);
    for rank in ["0", "1", "2"] {
        assert_eq!(log(&cluster, &format!("{id}#1"), rank), format!("{rank} in 1\n"));
        assert_eq!(log(&cluster, &id, rank), format!("{rank} in 2\n"));
    }
}

#[test]
fn the_output_of_all_tasks_is_shown_with_their_ranks() {
    let cluster = three_nodes();
    let line = "echo out $GPOOL_RANK; echo err $GPOOL_RANK >&2";
    let shown = cluster.gpool(["run", "--nodes", "3", "--gpus", "1", "--", "sh", "-c", line]).ok();
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: out 0", "1: out 1", "2: out 2"]);
    let out = cluster.gpool(["logs", "1", "--stdout"]).ok();
    assert_eq!(out, "0: out 0\n1: out 1\n2: out 2\n");
    let both = cluster.gpool(["logs", "1"]).ok();
    assert_eq!(both, "0: out 0\n0: err 0\n1: out 1\n1: err 1\n2: out 2\n2: err 2\n");
    assert_eq!(cluster.gpool(["logs", "1", "--rank", "1"]).ok(), "out 1\nerr 1\n");
    assert_eq!(cluster.gpool(["logs", "1", "--rank", "2", "--stderr"]).ok(), "err 2\n");
    let page = cluster.gpool(["show", "1"]).ok();
    assert!(page.contains("2 on "), "{page}");
    let list = cluster.gpool(["queue", "--state", "succeeded"]).ok();
    assert!(list.contains("1 ×3"), "{list}");
}

#[test]
fn a_program_is_run_beside_the_task_that_is_named() {
    let cluster = three_nodes();
    let id = cluster.sh(&["--nodes", "2", "--gpus", "1"], "exec sleep 1000");
    until_so("all run", || cluster.job(&id).state.as_str() == "running");
    for (rank, shown) in [("0", "0\n"), ("1", "1\n")] {
        let asked = ["exec", &id, "--rank", rank, "--", "sh", "-c", "echo $GPOOL_RANK"];
        assert_eq!(cluster.gpool(asked).ok(), shown);
    }
    let refused = cluster.gpool(["exec", &id, "--rank", "2", "--", "true"]);
    refused.refused(2, &["has no task 2; it has 2, from 0"]);
    cluster.gpool(["cancel", &id]).ok();
}

#[test]
fn a_gang_stays_on_one_switch_and_says_why_it_waits() {
    let cluster = Cluster::new("4x(sim:2xH100-80G)");
    for (nodes, switch) in [("lab1-1,lab1-3", "switch=a"), ("lab1-2,lab1-4", "switch=b")] {
        cluster.gpool(["nodes", "label", nodes, switch]).ok();
    }
    let gates = ["one", "two"].map(|name| Gate::new(&cluster, name));
    let fill = |node: &str, gate: &Gate| {
        let id = cluster.sh(&["--node", node, "--gpus", "2"], &gate.line());
        cluster.until_is(&id, "running");
        id
    };
    let (_, second) = (fill("lab1-1", &gates[0]), fill("lab1-2", &gates[1]));
    let gang = ["--nodes", "2", "--gpus", "2", "--topology"];
    let with = |topology| [&gang[..], &[topology]].concat();
    let id = cluster.sh(&with("same-switch"), "echo $GPOOL_NODELIST");
    let why = cluster.why(&id);
    assert!(why.contains("nodes at once with the same label (--topology)"), "{why}");
    assert_eq!(cluster.job(&id).request.topology.as_deref(), Some("same-switch"));
    gates[1].open();
    cluster.until_ended(&second);
    cluster.until_ended(&id);
    assert_eq!(cluster.gpool(["logs", &id, "--rank", "0"]).ok(), "lab1-2,lab1-4\n");
    // No switch has three nodes.
    let large = ["submit", "--nodes", "3", "--topology", "same-switch", "--", "true"];
    cluster.gpool(large).refused(4, &["GP04", "--topology same-switch"]);
    let none = ["submit", "--nodes", "2", "--topology", "same-room", "--", "true"];
    cluster.gpool(none).refused(4, &["GP0418", "same-room"]);
    let bad = ["submit", "--nodes", "2", "--topology", "switch", "--", "true"];
    cluster.gpool(bad).refused(2, &["same-switch"]);
    let id = cluster.sh(&with("prefer same-switch"), "true");
    cluster.until_ended(&id);
    gates[0].open();
}
