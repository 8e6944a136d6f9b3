//! Jobs that are paused and resumed.

use gpool_model::agent::{Order, Report, TaskIs};
use gpool_model::id::{Round, Term};
use gpool_model::job::EndCause;
use gpool_model::unit::Millis;

use crate::harness::*;

/// The size of a file; while a job that writes to it runs, it grows.
fn size(path: &std::path::Path) -> u64 {
    std::fs::metadata(path).map_or(0, |it| it.len())
}

/// A script that forks all the time: each child writes, and starts the next before it ends.
fn forks(folder: &std::path::Path) -> String {
    let (out, script) = (folder.join("out"), folder.join("forks.sh"));
    let text = format!(
        "#!/bin/sh\nprintf x >> {out}\n[ -e {stop} ] || {script} &\n",
        out = out.display(),
        stop = folder.join("stop").display(),
        script = script.display(),
    );
    std::fs::write(&script, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    format!(
        "{}; while [ ! -e {} ]; do sleep 0.01; done",
        script.display(),
        folder.join("stop").display()
    )
}

#[test]
fn a_job_that_forks_all_the_time_is_paused_and_resumed() {
    let mut node = Node::new();
    let folder = node.folder.path().to_owned();
    let task = node.run(&shell(1, &forks(&folder)));
    let out = folder.join("out");
    until("it forks", || size(&out) > 20);
    for round in 0..3 {
        node.pause_task(task, 10 + 2 * round);
        node.wait_for_halt(task, 10 + 2 * round, true);
        let before = size(&out);
        // Another task runs meanwhile: time for a process that was not stopped to write.
        let other = node.run(&job(100 + round, &["sleep", "0.2"]));
        node.wait_for_end(other);
        assert_eq!(size(&out), before, "no process runs");
        node.resume_task(task, 11 + 2 * round);
        node.wait_for_halt(task, 11 + 2 * round, false);
        until("it goes on", || size(&out) > before);
    }
    std::fs::write(folder.join("stop"), "").unwrap();
    assert_eq!(node.wait_for_end(task).exit, code(0));
}

#[test]
fn a_paused_job_gets_the_stop_signal() {
    let mut node = Node::new();
    let ready = node.folder.path().join("ready");
    let script =
        format!("trap 'exit 7' TERM; touch {}; while :; do sleep 0.01; done", ready.display());
    let task = node.run(&shell(1, &script));
    // The agent pauses only a task that it knows to run.
    node.wait_for_start(task);
    until("the trap is set", || ready.exists());
    node.pause_task(task, 2);
    node.wait_for_halt(task, 2, true);
    node.stop_task(task, Millis::from_secs(600));
    let end = node.wait_for_end(task);
    assert_eq!((end.exit, end.stopped), (code(7), true));
}

#[test]
fn a_pause_outlives_the_agent_and_the_next_one_resumes_the_job() {
    let mut node = Node::new();
    let folder = node.folder.path().to_owned();
    let task = node.run(&shell(1, &forks(&folder)));
    let out = folder.join("out");
    until("it forks", || size(&out) > 20);
    node.pause_task(task, 5);
    node.wait_for_halt(task, 5, true);
    let before = size(&out);
    node.kill();
    node.reports.clear();
    node.start();
    node.order(&Order::Sync { term: Term(1), round: Round(1), closed: Default::default() });
    let is = node.wait_for("the list of tasks", |report| match report {
        Report::Tasks { tasks, .. } => Some((tasks[0].is.clone(), tasks[0].generation.0)),
        _ => None,
    });
    assert!(matches!(is, (TaskIs::Paused { .. }, 5)), "{is:?}");
    assert_eq!(size(&out), before);
    // An order from before the pause changes nothing.
    node.resume_task(task, 4);
    node.resume_task(task, 6);
    node.wait_for_halt(task, 6, false);
    until("it goes on", || size(&out) > before);
    std::fs::write(folder.join("stop"), "").unwrap();
    assert_eq!(node.wait_for_end(task).exit, code(0));
}

#[test]
fn a_time_limit_stands_still_while_a_job_is_paused() {
    let mut node = Node::new();
    let folder = node.folder.path().to_owned();
    let mut limited = shell(1, &forks(&folder));
    limited.time_limit = Some(Millis::new(1500));
    let task = node.run(&limited);
    node.wait_for_start(task);
    node.pause_task(task, 2);
    node.wait_for_halt(task, 2, true);
    // Longer than the job's remaining time.
    let other = node.run(&job(2, &["sleep", "2"]));
    node.wait_for_end(other);
    let ended = node.reports.iter().any(|report| {
        matches!(report, Report::Task(it) if it.task == task && matches!(it.is, TaskIs::Ended(_)))
    });
    assert!(!ended, "its time was not over");
    node.resume_task(task, 3);
    assert_eq!(node.wait_for_end(task).cause, Some(EndCause::TimeLimit));
}
