//! kill -9 of agents and shepherds: running tasks go on, ends are not lost, no task runs twice.

use gpool_model::agent::{Order, Report, TaskIs};
use gpool_model::id::{Round, TaskId, Term};
use gpool_model::job::EndCause;
use gpool_model::unit::Millis;

use crate::harness::{
    Node, Stranger, checksum, code, is_lost, job, kill, lives, order, shell, shepherd_of, signal,
    until, written_pid,
};

#[test]
fn a_new_agent_adopts_running_tasks_and_those_that_ended_meanwhile() {
    let mut node = Node::new();
    let (go, gone) = (node.path("go"), node.path("gone"));
    let wait =
        |file: &std::path::Path| format!("while [ ! -e {} ]; do sleep 0.01; done", file.display());
    let lives_on = node.run(&shell(1, &format!("{}; echo whole; exit 3", wait(&go))));
    let ends = node.run(&shell(2, &format!("{}; exit 4", wait(&gone))));
    let pid = node.wait_for_start(lives_on);
    let shepherd = {
        node.wait_for_start(ends);
        shepherd_of(&node, ends)
    };
    node.kill();
    assert!(lives(pid));
    std::fs::write(&gone, "").unwrap();
    until("it has ended while no agent runs", || !lives(shepherd));
    node.reports.clear();
    node.start();
    assert_eq!(node.wait_for_end(ends).exit, code(4));
    assert_eq!(node.wait_for_start(lives_on), pid);
    std::fs::write(&go, "").unwrap();
    let end = node.wait_for_end(lives_on);
    assert_eq!((end.exit, end.cause), (code(3), None));
    assert_eq!(node.stdout(lives_on), "whole\n");
    for task in [lives_on, ends] {
        node.acknowledge(task);
    }
    node.order(&Order::Sync { term: Term(1), round: Round(1), closed: Default::default() });
    let left = node.wait_for("answer", |report| match report {
        Report::Tasks { tasks, .. } => Some(tasks.len()),
        _ => None,
    });
    assert_eq!(left, 0);
}

#[test]
fn an_unacknowledged_end_is_reported_again_with_its_status() {
    let mut node = Node::new();
    let task = node.run(&shell(1, "exit 6"));
    let end = node.wait_for_end(task);
    let shepherd = shepherd_of(&node, task);
    assert!(lives(shepherd), "it waits for the acknowledgement");
    node.kill();
    until("it ends without an agent", || !lives(shepherd));
    for term in 2..4 {
        node.reports.clear();
        node.start();
        node.order(&Order::Sync { term: Term(term), round: Round(1), closed: Default::default() });
        assert_eq!(node.wait_for_end(task), end);
        node.order(&Order::Run(Box::new(order(&job(1, &["true"]), &[]))));
        node.kill();
    }
}

#[test]
fn an_adopted_job_can_be_stopped_and_keeps_its_limit() {
    let mut node = Node::new();
    let stopped = node.run(&job(1, &["sleep", "600"]));
    let mut limited = job(2, &["sleep", "600"]);
    limited.time_limit = Some(Millis::new(1500));
    let limited = node.run(&limited);
    let (one, other) = (node.wait_for_start(stopped), node.wait_for_start(limited));
    node.kill();
    node.reports.clear();
    node.start();
    node.stop_task(stopped, Millis::from_secs(60));
    let end = node.wait_for_end(stopped);
    assert_eq!((end.exit, end.stopped), (signal(15), true));
    assert_eq!(node.wait_for_end(limited).cause, Some(EndCause::TimeLimit));
    assert!(!lives(one) && !lives(other));
}

#[test]
fn a_job_whose_shepherd_was_killed_is_lost_and_leaves_no_process() {
    let mut node = Node::new();
    let escaped = node.path("escaped");
    let script = format!(
        "(setsid sh -c 'echo $$ > {}; exec sleep 600' &); exec sleep 600",
        escaped.display()
    );
    let task = node.run(&shell(1, &script));
    let pid = node.wait_for_start(task);
    let escaped = written_pid(&escaped);
    kill(shepherd_of(&node, task));
    let end = node.wait_for_end(task);
    assert_eq!(end.exit, None);
    assert!(is_lost(&end, Some(9), false), "{end:?}");
    until("all its processes are gone", || !lives(pid) && !lives(escaped));
}

#[test]
fn agent_and_shepherd_killed_together_leave_a_lost_job() {
    let mut node = Node::new();
    let task = node.run(&job(1, &["sleep", "600"]));
    let pid = node.wait_for_start(task);
    let shepherd = shepherd_of(&node, task);
    node.kill();
    kill(shepherd);
    until("the shepherd is gone", || !lives(shepherd));
    node.reports.clear();
    node.start();
    assert!(is_lost(&node.wait_for_end(task), Some(9), false));
    until("its job is gone", || !lives(pid));
}

/// Writes a claim as a shepherd with this process ID would have left it.
fn leave_claim(node: &Node, task: TaskId, shepherd: u32, boot_id: &str) {
    let claimant = serde_json::json!({"claimed": {
        "task": task, "generation": 1, "shepherd": shepherd,
        "shepherd_started": 0, "boot_id": boot_id, "uid": 0, "devices": [],
        "site": {"unified": null, "memory_v1": null, "pids_v1": null,
                 "controllers": {"memory": false, "pids": false, "cpu": false}},
    }});
    let json = claimant.to_string();
    let sum = checksum(json.as_bytes());
    std::fs::write(node.layout().claim(task), format!("{sum:016x} {json}\n")).unwrap();
}

#[test]
fn a_stranger_with_the_shepherds_process_id_is_left_alone() {
    let mut node = Node::new();
    node.kill();
    let mut stranger = Stranger::new();
    let task: TaskId = "1#1/0".parse().unwrap();
    leave_claim(&node, task, stranger.pid(), &gpool_sys::proc::boot_id());
    node.start();
    let end = node.wait_for_end(task);
    // The claim names no nursery, so a process of the task may live.
    assert!(is_lost(&end, None, true), "{end:?}");
    node.stop_task(task, Millis::ZERO);
    node.acknowledge(task);
    until("it is forgotten", || !node.layout().claim(task).exists());
    assert!(stranger.lives());
}

#[test]
fn a_job_from_before_a_reboot_ends_with_that_cause() {
    let mut node = Node::new();
    node.kill();
    let task: TaskId = "1#1/0".parse().unwrap();
    leave_claim(&node, task, std::process::id(), "another-boot");
    // A file system may leave an empty claim after a power failure.
    let cut: TaskId = "2#1/0".parse().unwrap();
    std::fs::write(node.layout().claim(cut), "").unwrap();
    node.start();
    assert_eq!(node.wait_for_end(task).cause, Some(EndCause::Rebooted));
    assert_eq!(node.wait_for_end(cut).cause, Some(EndCause::Rebooted));
}

#[test]
fn of_two_shepherds_for_one_task_one_launches_it() {
    for round in 0..5 {
        let mut node = Node::new();
        let runs = node.path("runs");
        let run =
            order(&shell(1, &format!("echo $PPID >> {}; exec sleep 600", runs.display())), &[]);
        let task = run.task();
        node.order(&Order::Run(Box::new(run.clone())));
        if round % 2 == 0 {
            // Without waiting, so that the first shepherd may or may not have claimed the task.
            node.kill();
            node.start();
        } else {
            node.wait_for_start(task);
            node.kill();
            node.start();
        }
        node.order(&Order::Run(Box::new(run)));
        node.wait_for_start(task);
        node.order(&Order::Sync { term: Term(2), round: Round(1), closed: Default::default() });
        let is = node.wait_for("answer", |report| match report {
            Report::Tasks { tasks, .. } => Some(tasks[0].is.clone()),
            _ => None,
        });
        assert!(matches!(is, TaskIs::Running { .. }), "{is:?}");
        let has_begun = || std::fs::read_to_string(&runs).is_ok_and(|text| text.ends_with('\n'));
        until("it has noted that it runs", has_begun);
        let order = Order::Stop {
            term: Term(2),
            task,
            generation: gpool_model::id::Generation(2),
            grace: Millis::ZERO,
            signal: None,
        };
        node.order(&order);
        assert!(node.wait_for_end(task).stopped);
        assert_eq!(std::fs::read_to_string(runs).unwrap().lines().count(), 1);
    }
}

#[test]
fn the_next_agent_removes_the_group_of_a_finished_task() {
    let mut node = Node::new();
    let task = node.run(&shell(1, "true"));
    node.wait_for_end(task);
    node.acknowledge(task);
    let record = node.path("jobs/1/1.claim");
    until("it is forgotten", || record.exists());
    node.kill();
    // A shepherd that is killed after its last message leaves such a group.
    let state = record.ancestors().nth(3).unwrap().as_os_str().as_encoded_bytes();
    let name = format!("gpool-{:016x}", checksum(state));
    let site = gpool_sys::cgroup::Site::open(&name);
    let limits = gpool_sys::cgroup::Limits::default();
    let of = |name: &str| site.group(name, limits, None).unwrap();
    let (Some(_), Some(other)) = (of("1#1-0"), of("2#1-0")) else {
        eprintln!("SKIPPED: no cgroups can be made here");
        return;
    };
    node.start();
    until("its group is gone", || !site.groups().contains(&"1#1-0".to_owned()));
    assert_eq!(site.groups(), ["2#1-0"], "the other task may not be over");
    other.remove();
}
