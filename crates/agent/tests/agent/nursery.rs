//! The process that forks shepherds: if it is killed, at any time, no job ends, gets lost, or
//! starts twice.

use std::collections::BTreeSet;

use gpool_model::agent::{Order, Report};
use gpool_model::id::{Round, TaskId, Term};

use crate::harness::{Node, code, kill, lives, order, shell, shepherd_of, until};

fn nurseries(agent: u32) -> Vec<u32> {
    let is_one = |pid: &u32| {
        // Until a shepherd has its own session and name, it has those of its nursery, as well as
        // the command line. With this order of checks it can't be taken for a nursery.
        let leads = |stat: gpool_sys::proc::Stat| stat.parent == agent && stat.session == *pid;
        gpool_sys::proc::stat(*pid).is_some_and(leads) && {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            !name.starts_with("gpool ")
                && words.split(|byte| *byte == 0).any(|word| word == b"__nursery")
        }
    };
    gpool_sys::proc::all().into_iter().filter(is_one).collect()
}

fn nursery(node: &Node) -> u32 {
    nurseries(node.agent())[0]
}

/// A job that writes a line each time it is started.
fn noting(node: &Node, number: u64) -> gpool_model::job::JobSpec {
    shell(number, &format!("echo {number} >> {}; exit 3", node.path("runs").display()))
}

fn assert_each_ran_once(node: &Node, count: u64) {
    let runs = std::fs::read_to_string(node.path("runs")).unwrap();
    let numbers: BTreeSet<u64> = runs.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers, (1..=count).collect());
    assert_eq!(runs.lines().count(), numbers.len(), "some ran twice: {runs}");
}

#[test]
fn a_nursery_that_is_killed_again_and_again_loses_no_job_and_starts_none_twice() {
    const COUNT: u64 = 60;
    let mut node = Node::new();
    let tasks: Vec<_> = (1..=COUNT)
        .map(|number| {
            let job = noting(&node, number);
            let task = node.run(&job);
            if number % 4 == 0 {
                // While earlier orders are processed, wherever the agent is. Fewer times in all
                // than one launch may need nurseries.
                until("there is one", || !nurseries(node.agent()).is_empty());
                nurseries(node.agent()).into_iter().for_each(kill);
            }
            task
        })
        .collect();
    for task in tasks {
        let end = node.wait_for_end(task);
        assert_eq!((end.exit, end.cause), (code(3), None), "{task}");
    }
    assert_each_ran_once(&node, COUNT);
}

#[test]
fn a_job_and_its_shepherd_outlive_the_nursery() {
    let mut node = Node::new();
    let go = node.path("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.01; done; exit 5", go.display());
    let task = node.run(&shell(1, &script));
    let pid = node.wait_for_start(task);
    let old = nursery(&node);
    kill(old);
    until("it is gone", || !lives(old));
    let other = node.run(&shell(2, "exit 4"));
    assert_eq!(node.wait_for_end(other).exit, code(4));
    assert_ne!(nursery(&node), old);
    assert!(lives(pid) && lives(shepherd_of(&node, task)));
    std::fs::write(go, "").unwrap();
    assert_eq!(node.wait_for_end(task).exit, code(5));
}

#[test]
fn a_nursery_outlives_its_agent_for_its_shepherds_and_no_longer() {
    for killed in [true, false] {
        let mut node = Node::new();
        let go = node.path("go");
        let script = format!("while [ ! -e {} ]; do sleep 0.01; done; exit 5", go.display());
        let task = node.run(&shell(1, &script));
        node.wait_for_start(task);
        let (old, shepherd) = (nursery(&node), shepherd_of(&node, task));
        if killed {
            node.kill()
        } else {
            node.stop()
        }
        node.reports.clear();
        node.start();
        let other = node.run(&shell(2, "exit 4"));
        assert_eq!(node.wait_for_end(other).exit, code(4));
        assert!(nursery(&node) != old && lives(old) && lives(shepherd));
        std::fs::write(go, "").unwrap();
        assert_eq!(node.wait_for_end(task).exit, code(5));
        node.acknowledge(task);
        until("the old nursery has ended", || !lives(old));
    }
    let mut node = Node::new();
    assert_eq!(node.finish(&shell(1, "exit 5")).exit, code(5));
    let nursery = nursery(&node);
    node.stop();
    until("a nursery without shepherds has ended", || !lives(nursery));
}

#[test]
fn an_agent_that_is_killed_while_shepherds_are_forked_loses_no_job_and_starts_none_twice() {
    const COUNT: u64 = 24;
    let mut node = Node::new();
    let orders: Vec<_> = (1..=COUNT).map(|number| order(&noting(&node, number), &[])).collect();
    for some in orders.chunks(6) {
        for order in some {
            node.order(&Order::Run(Box::new(order.clone())));
        }
        node.kill();
        node.start();
    }
    for order in &orders {
        node.order(&Order::Run(Box::new(order.clone())));
    }
    for order in &orders {
        assert_eq!(node.wait_for_end(order.task()).exit, code(3), "{}", order.task());
    }
    assert_each_ran_once(&node, COUNT);
}

#[test]
fn nothing_is_left_open_or_unreaped() {
    let mut node = Node::new();
    let open = |pid: u32| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        entries.flatten().count()
    };
    let finish = |node: &mut Node, number: u64| {
        assert_eq!(node.finish(&shell(number, "exit 0")).exit, code(0));
    };
    finish(&mut node, 1);
    let (agent, nursery) = (node.agent(), nursery(&node));
    let children = || gpool_sys::proc::descendants(agent);
    until("the first shepherd has ended", || children() == [nursery]);
    let before = (open(agent), open(nursery));
    for number in 2..=20 {
        finish(&mut node, number);
    }
    until("all shepherds have ended", || children() == [nursery]);
    // A nursery has a further descriptor while it waits.
    until("no more descriptors are open than before", || (open(agent), open(nursery)) == before);
}

#[test]
fn a_job_inherits_no_descriptor_while_others_run() {
    let mut node = Node::new();
    let long: Vec<TaskId> = (1..=5).map(|number| node.run(&shell(number, "sleep 600"))).collect();
    for task in &long {
        node.wait_for_start(*task);
    }
    let task = node.run(&shell(9, "ls /proc/$$/fd; readlink /proc/$$/fd/0"));
    assert_eq!(node.wait_for_end(task).exit, code(0));
    assert_eq!(node.stdout(task), "0\n1\n2\n/dev/null\n");
    // Each shepherd has only its own connection.
    let sockets = |task| {
        let folder = format!("/proc/{}/fd", shepherd_of(&node, task));
        let links = std::fs::read_dir(folder).unwrap().flatten();
        let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    for task in long {
        assert_eq!(sockets(task), 1, "{task}");
    }
}

#[test]
fn a_shepherd_is_named_for_its_task_and_has_its_own_session() {
    let mut node = Node::new();
    let task = node.run(&shell(1842, "sleep 600"));
    node.wait_for_start(task);
    let shepherd = shepherd_of(&node, task);
    let name = std::fs::read_to_string(format!("/proc/{shepherd}/comm")).unwrap();
    assert_eq!(name, "gpool 1842#1/0\n");
    let stat = gpool_sys::proc::stat(shepherd).unwrap();
    assert_eq!((stat.session, stat.group, stat.parent), (shepherd, shepherd, nursery(&node)));
}

#[test]
fn the_error_says_that_the_program_can_not_be_started() {
    let mut node = Node::with(&["none", "shepherd_exe=/no/such/program"]);
    let why = node.failure(&shell(1, "exit 0"));
    assert!(why.contains("can't start a shepherd (/no/such/program): No such file"), "{why}");
    let mut node = Node::with(&["none", "shepherd_exe=/bin/true"]);
    let why = node.failure(&shell(1, "exit 0"));
    assert!(why.contains("/bin/true): it ends before it has forked one"), "{why}");
    node.order(&Order::Sync { term: Term(1), round: Round(1), closed: Default::default() });
    node.wait_for("answer", |report| matches!(report, Report::Tasks { .. }).then_some(()));
}
