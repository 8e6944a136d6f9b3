//! Processes that a killed shepherd leaves where there are no control groups: forked twice, in
//! their own session, without the environment of the job.

use gpool_device::{SimControl, SimProcess};
use gpool_model::agent::{Report, TaskIs};
use gpool_model::device::Device;
use gpool_model::id::TaskId;
use gpool_model::job::JobSpec;
use gpool_model::unit::Millis;

use crate::harness::{Node, code, is_lost, kill, lives, shell, shepherd_of, until, written_pid};

/// A job with a process that belongs to it only by the process tree.
fn escaping(node: &Node, number: u64) -> (JobSpec, std::path::PathBuf) {
    let file = node.path(&format!("escaped-{number}"));
    let script = format!(
        "(setsid env -i /bin/sh -c 'trap \"\" TERM HUP; echo $$ > {}; while :; do /bin/sleep 1; \
         done' &); exec sleep 600",
        file.display()
    );
    (shell(number, &script), file)
}

fn start_escaping(node: &mut Node, number: u64) -> (TaskId, u32) {
    let (job, file) = escaping(node, number);
    let task = node.run(&job);
    node.wait_for_start(task);
    let escaped = written_pid(&file);
    until("it is the shepherd's child", || {
        let parent = gpool_sys::proc::stat(escaped).map(|stat| stat.parent);
        parent == Some(shepherd_of(node, task))
    });
    (task, escaped)
}

fn nursery_of(node: &Node, task: TaskId) -> u32 {
    gpool_sys::proc::stat(shepherd_of(node, task)).unwrap().parent
}

#[test]
fn a_process_that_forked_twice_and_cleared_its_environment_is_ended() {
    let Some(mut node) = Node::without_groups(&["none"]) else { return };
    let (task, escaped) = start_escaping(&mut node, 1);
    kill(shepherd_of(&node, task));
    let end = node.wait_for_end(task);
    assert_eq!(end.exit, None);
    assert!(is_lost(&end, Some(9), false), "{end:?}");
    assert!(!lives(escaped), "the end is reported when all are gone");
    // The nursery forks as before.
    assert_eq!(node.finish(&shell(2, "exit 3")).exit, code(3));
}

#[test]
fn such_a_process_is_ended_under_a_later_agent_too() {
    let Some(mut node) = Node::without_groups(&["none"]) else { return };
    let (first, one) = start_escaping(&mut node, 1);
    let (second, other) = start_escaping(&mut node, 2);
    let bystander = node.run(&shell(3, "exec sleep 600"));
    let untouched = node.wait_for_start(bystander);
    let nursery = nursery_of(&node, first);
    node.kill();
    // While no agent runs.
    let shepherd = shepherd_of(&node, first);
    kill(shepherd);
    until("no process of it is left", || !lives(one) && gpool_sys::proc::stat(shepherd).is_none());
    node.reports.clear();
    node.start();
    assert!(is_lost(&node.wait_for_end(first), Some(9), false));
    node.wait_for_start(second);
    kill(shepherd_of(&node, second));
    assert!(is_lost(&node.wait_for_end(second), Some(9), false));
    assert!(!lives(other) && lives(untouched) && lives(nursery));
    node.stop_task(bystander, Millis::ZERO);
    assert!(node.wait_for_end(bystander).stopped);
    node.acknowledge(bystander);
    until("the old nursery has ended", || !lives(nursery));
    // A nursery that ends with its last shepherd notes in the claim that no process is left.
    let (third, one) = start_escaping(&mut node, 4);
    let (nursery, shepherd) = (nursery_of(&node, third), shepherd_of(&node, third));
    node.kill();
    kill(shepherd);
    until("the nursery has ended", || !lives(nursery));
    assert!(!lives(one));
    node.reports.clear();
    node.start();
    assert!(is_lost(&node.wait_for_end(third), Some(9), false));
}

/// A job with programs that fork and exit as fast as they can, each in its own session. The closure
/// tells whether one of their processes lives.
fn comets(node: &Node, number: u64) -> (JobSpec, impl Fn() -> bool + use<>) {
    let program = node.path(&format!("comet-{number}"));
    std::fs::write(&program, "setsid /bin/sh $0 &\n").unwrap();
    let shown = program.display().to_string();
    let start = format!("env -i /bin/sh {shown}; ").repeat(3);
    let live = move || {
        gpool_sys::proc::all().into_iter().any(|pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.windows(shown.len()).any(|some| some == shown.as_bytes())
        })
    };
    (shell(number, &format!("{start} exec sleep 600")), live)
}

#[test]
fn processes_that_fork_and_exit_all_the_time_are_caught() {
    let Some(mut node) = Node::without_groups(&["none"]) else { return };
    // First by the nursery, then by the shepherd.
    for (number, is_killed) in [(1, true), (2, false)] {
        let (job, live) = comets(&node, number);
        let task = node.run(&job);
        node.wait_for_start(task);
        until("they run", &live);
        match is_killed {
            true => kill(shepherd_of(&node, task)),
            false => node.stop_task(task, Millis::ZERO),
        }
        let end = node.wait_for_end(task);
        assert!(is_lost(&end, Some(9), false) == is_killed && end.stopped != is_killed, "{end:?}");
        assert!(!live());
    }
}

#[test]
fn a_task_has_not_ended_while_the_kernel_keeps_a_process_of_it() {
    let group = std::path::Path::new("/sys/fs/cgroup/freezer")
        .join(format!("gpool-test-{}", std::process::id()));
    if std::fs::create_dir(&group).is_err() {
        eprintln!("SKIPPED: there is no freezer of version 1 here");
        return;
    }
    let Some(mut node) = Node::without_groups(&["none"]) else { return };
    let (task, escaped) = start_escaping(&mut node, 1);
    std::fs::write(group.join("cgroup.procs"), escaped.to_string()).unwrap();
    std::fs::write(group.join("freezer.state"), "FROZEN").unwrap();
    let state = || std::fs::read_to_string(group.join("freezer.state")).unwrap();
    until("it is frozen and can't be killed", || state().trim() == "FROZEN");
    kill(shepherd_of(&node, task));
    let is_killed = || {
        let status = std::fs::read_to_string(format!("/proc/{escaped}/status")).unwrap();
        let pending = |key| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        (pending("ShdPnd:") | pending("SigPnd:")) & (1 << 8) != 0
    };
    until("it was killed", is_killed);
    // The agent handles other tasks meanwhile.
    for number in 2..5 {
        assert_eq!(node.finish(&shell(number, "exit 3")).exit, code(3));
    }
    let has_ended = |report: &Report| {
        let Report::Task(report) = report else { return false };
        report.task == task && matches!(report.is, TaskIs::Ended(_))
    };
    assert!(lives(escaped) && !node.reports.iter().any(has_ended));
    std::fs::write(group.join("freezer.state"), "THAWED").unwrap();
    assert!(is_lost(&node.wait_for_end(task), Some(9), false));
    assert!(!lives(escaped));
    let _ = std::fs::remove_dir(group);
}

#[test]
fn processes_that_can_not_be_found_are_reported_and_keep_the_device() {
    let settings = ["sim:1xH100-80G", "unmanaged_grace=0"];
    let Some(mut node) = Node::without_groups(&settings) else { return };
    let devices: Vec<Device> = node.wait_for("inventory", |report| match report {
        Report::Inventory { devices, .. } if devices.len() == 1 => Some(devices.clone()),
        _ => None,
    });
    let (job, file) = escaping(&node, 1);
    let task = node.run_on(&job, &[&devices[0]]);
    node.wait_for_start(task);
    let escaped = written_pid(&file);
    let control = SimControl::new(&node.path("control"), 0..1);
    control.add_process(0, SimProcess { pid: escaped, ..SimProcess::default() }).unwrap();
    // Kill the nursery, so that no process adopts the job's orphans.
    let (nursery, shepherd) = (nursery_of(&node, task), shepherd_of(&node, task));
    kill(nursery);
    until("it has another parent", || {
        gpool_sys::proc::stat(shepherd).is_some_and(|stat| stat.parent != nursery)
    });
    node.reports.clear();
    kill(shepherd);
    assert!(is_lost(&node.wait_for_end(task), None, true));
    assert!(lives(escaped), "nothing proves that it belonged to the job");
    let position = |is: &dyn Fn(&Report) -> bool| node.reports.iter().position(is).unwrap();
    let in_use = position(&|report| {
        matches!(report, Report::Inventory { devices, .. }
            if devices[0].unmanaged.iter().any(|process| process.pid == escaped))
    });
    let ended =
        position(&|report| matches!(report, Report::Task(it) if matches!(it.is, TaskIs::Ended(_))));
    assert!(in_use < ended, "the device was never free");
    let next = node.run_on(&shell(2, "exit 0"), &[&devices[0]]);
    assert_eq!(node.wait_for_refusal(next), 1);
    kill(escaped);
    control.remove_process(0, escaped).unwrap();
    let last = node.run_on(&shell(3, "exit 4"), &[&devices[0]]);
    assert_eq!(node.wait_for_end(last).exit, code(4));
}
