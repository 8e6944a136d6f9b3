//! Launches: how jobs run and end, their environment, and jobs that can't be started.

use gpool_model::SignalTo;
use gpool_model::agent::{LaunchContext, Order, Report, TaskIs};
use gpool_model::id::{Generation, RequestId, Round, TaskId, Term};
use gpool_model::job::EndCause;
use gpool_model::launch::Lack;
use gpool_model::unit::Millis;

use crate::harness::{Node, code, job, lives, order, shell, signal, until};

#[test]
fn the_inventory_comes_first_and_a_job_runs_to_its_end() {
    let mut node = Node::new();
    let task = node.run(&job(1, &["true"]));
    let end = node.wait_for_end(task);
    assert_eq!((end.exit, end.cause, end.stopped), (code(0), None, false));
    assert!(end.started_at.is_some_and(|at| at <= end.ended_at));
    assert!(matches!(node.reports[0], Report::Inventory { .. }));
    let claim = node.layout().claim(task);
    assert!(claim.exists(), "kept until acknowledged");
    node.acknowledge(task);
    until("the claim is gone", || !claim.exists());
    node.order(&Order::Run(Box::new(order(&shell(1, "echo again"), &[]))));
    node.order(&Order::Sync { term: Term(1), round: Round(1), closed: Default::default() });
    let known = node.wait_for("answer", |report| match report {
        Report::Tasks { tasks, .. } => Some(tasks.len()),
        _ => None,
    });
    assert_eq!(known, 0, "a late order launches nothing");
    assert_eq!(node.stdout(task), "");
}

#[test]
fn exit_codes_and_signals_are_distinguished() {
    let mut node = Node::new();
    assert_eq!(node.finish(&shell(1, "exit 7")).exit, code(7));
    assert_eq!(node.finish(&shell(2, "kill -9 $$")).exit, signal(9));
    assert_eq!(node.finish(&shell(3, "kill -SEGV $$")).exit, signal(11));
}

#[test]
fn usage_counts_the_whole_process_tree() {
    let mut node = Node::new();
    let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let end = node.finish(&shell(1, &format!("({burn}) & wait; {burn}")));
    assert!(end.usage.cpu_user > Millis::ZERO, "{:?}", end.usage);
    assert!(!end.usage.memory_peak.is_zero());
}

#[test]
fn a_task_ordered_many_times_runs_once() {
    let mut node = Node::new();
    let file = node.path("runs");
    let run = order(&shell(1, &format!("echo x >> {}", file.display())), &[]);
    for _ in 0..20 {
        node.order(&Order::Run(Box::new(run.clone())));
    }
    node.wait_for_end(run.task());
    node.order(&Order::Run(Box::new(run.clone())));
    node.order(&Order::Sync { term: Term(1), round: Round(1), closed: Default::default() });
    node.wait_for("answer", |report| matches!(report, Report::Tasks { .. }).then_some(()));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n");
}

#[test]
fn signals_reach_the_job() {
    let mut node = Node::new();
    let ready = node.path("ready");
    let script =
        format!("trap 'exit 5' USR1; touch {}; while :; do sleep 0.01; done", ready.display());
    let task = node.run(&shell(1, &script));
    node.wait_for_start(task);
    until("the trap is set", || ready.exists());
    node.order(&Order::Signal {
        term: Term(1),
        task,
        signal: 10,
        to: SignalTo::Job,
        request: RequestId(1),
    });
    assert_eq!(node.wait_for_end(task).exit, code(5));
}

#[test]
fn a_job_has_its_own_environment_and_inherits_nothing_else() {
    let mut node = Node::new();
    node.context(&LaunchContext {
        environment: vec![
            (b"PATH".to_vec(), b"/usr/bin:/bin".to_vec()),
            (b"RAW".to_vec(), b"a\xffb".to_vec()),
            (b"GPOOL_JOB_ID".to_vec(), b"99".to_vec()),
        ],
        limits: vec![(7, Some(321), Some(321))],
        umask: Some(0o027),
    });
    let script = "env | sort; umask; ulimit -n; ls /proc/self/fd | tr '\\n' ' '; \
                  grep -E '^Sig(Blk|Ign)' /proc/self/status; cat; \
                  echo oom $(cat /proc/self/oom_score_adj)";
    let end = node.finish(&shell(1, script));
    assert_eq!(end.exit, code(0));
    let task: TaskId = "1#1/0".parse().unwrap();
    let bytes = std::fs::read(node.layout().stdout(task)).unwrap();
    let output = String::from_utf8_lossy(&bytes).into_owned();
    assert!(bytes.windows(8).any(|it| it == b"RAW=a\xffb\n"), "{output}");
    for line in [
        "CUDA_VISIBLE_DEVICES=",
        "GPOOL_API=/run/gpool/api.sock",
        "GPOOL_JOB_ID=1",
        "GPOOL_NODE=node",
        "NVIDIA_VISIBLE_DEVICES=void",
        "0027",
        "oom 0",
        "321",
        // `ls` has one more descriptor open, the folder.
        "0 1 2 3 SigBlk:\t0000000000000000",
        "SigIgn:\t0000000000000000",
    ] {
        assert!(output.lines().any(|it| it == line), "{line} in {output}");
    }
    assert!(!output.contains("CARGO"), "of the agent's own environment: {output}");
}

#[test]
fn a_script_is_run_by_its_interpreter_or_by_the_shell() {
    let mut node = Node::new();
    node.blob("named", b"#!/bin/sh -e\necho $0 $1; false; echo not reached\n");
    node.blob("plain", b"echo plain $1\n");
    node.blob("nowhere", b"#!/no/such/interpreter\n");
    let script = |number, name: &str| {
        let mut job = job(number, &["word"]);
        job.script = Some(gpool_model::job::BlobId(name.into()));
        job
    };
    assert_eq!(node.finish(&script(1, "named")).exit, code(1));
    let path = node.layout().attempt("1#1/0".parse().unwrap()).join("script");
    assert_eq!(node.stdout("1#1/0".parse().unwrap()), format!("{} word\n", path.display()));
    assert_eq!(node.finish(&script(2, "plain")).exit, code(0));
    assert_eq!(node.stdout("2#1/0".parse().unwrap()), "plain word\n");
    let why = node.failure(&script(3, "nowhere"));
    assert!(why.contains("the interpreter /no/such/interpreter of"), "{why}");
    // The server holds such a job; it can be released once the file is back.
    let cause = node.finish(&script(4, "missing")).cause;
    assert!(matches!(cause, Some(EndCause::NodeLacks(Lack::Stored(_)))), "{cause:?}");
}

#[test]
fn a_job_that_cannot_be_started_says_why() {
    let mut node = Node::new();
    let why = node.failure(&job(1, &["no-such-program-here"]));
    let path = "/usr/local/bin:/usr/bin:/bin";
    assert_eq!(why, format!("there is no program no-such-program-here in PATH ({path})"));
    assert_eq!(node.failure(&job(2, &["./nothing"])), "there is no program ./nothing");
    let text = node.path("text").display().to_string();
    std::fs::write(&text, "text").unwrap();
    let why = node.failure(&job(3, &[&text]));
    assert_eq!(why, format!("can't run {text}: Permission denied (os error 13)"));
    let why = node.failure(&job(4, &["/tmp"]));
    assert!(why.starts_with("can't run /tmp: "), "{why}");
    let mut nowhere = job(5, &["true"]);
    nowhere.directory = "/no/such/folder".to_owned();
    let missing = Some(EndCause::NodeLacks(Lack::Path("/no/such/folder".to_owned())));
    assert_eq!(node.finish(&nowhere).cause, missing);
    nowhere = job(9, &["true"]);
    nowhere.directory = "/etc/passwd/folder".to_owned();
    assert!(matches!(node.finish(&nowhere).cause, Some(EndCause::NodeLacks(Lack::Path(_)))));
    assert_eq!(node.failure(&job(6, &["a\0b"])), "the command contains a NUL character");
    assert_eq!(node.failure(&job(7, &[])), "the command is empty");
    let huge = vec![(b"HUGE".to_vec(), vec![b'x'; 10 << 20])];
    node.context(&LaunchContext { environment: huge, ..LaunchContext::default() });
    let why = node.failure(&job(8, &["true"]));
    assert!(why.starts_with("environment (10486"), "{why}");
}

#[test]
fn a_stop_before_the_launch_prevents_it() {
    let mut node = Node::new();
    let task: TaskId = "1#1/0".parse().unwrap();
    node.stop_task(task, Millis::ZERO);
    let end = node.wait_for_end(task);
    assert_eq!((end.exit, &end.cause, end.stopped), (None, &None, true));
    let mut run = order(&job(1, &["true"]), &[]);
    run.generation = Generation(9);
    node.order(&Order::Run(Box::new(run)));
    node.kill();
    node.start();
    node.order(&Order::Sync { term: Term(2), round: Round(1), closed: Default::default() });
    let is = node.wait_for("answer", |report| match report {
        Report::Tasks { tasks, .. } => Some(tasks[0].is.clone()),
        _ => None,
    });
    assert_eq!(is, TaskIs::Ended(end), "kept over a restart, and never launched");
    assert!(!node.layout().attempt(task).exists());
}

#[test]
fn a_second_agent_is_refused() {
    let node = Node::new();
    until("the first has the lock", || node.layout().state().join("agent.sock").exists());
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_gpool-agent-host"))
        .arg(node.folder.path())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("InUse"), "{second:?}");
}

/// A process that a killed agent has just forked holds its lock until it runs its own program.
#[test]
fn an_agent_waits_a_moment_for_the_lock_of_the_last_one() {
    let mut node = Node::new();
    node.kill();
    let path = node.layout().lock();
    let left = std::fs::File::options().write(true).open(&path).unwrap();
    until("the lock is free", || gpool_sys::lock::try_lock(&left).unwrap());
    node.start();
    let open = format!("/proc/{}/fd", node.agent());
    let has_come = || {
        let files = std::fs::read_dir(&open).into_iter().flatten().flatten();
        files.flat_map(|file| std::fs::read_link(file.path())).any(|file| file == path)
    };
    until("it has opened the lock", has_come);
    drop(left);
    let task = node.run(&job(1, &["true"]));
    assert_eq!(node.wait_for_end(task).exit, code(0));
}

#[test]
fn an_agent_that_stops_leaves_its_jobs_running() {
    let mut node = Node::new();
    let task = node.run(&job(1, &["sleep", "600"]));
    let pid = node.wait_for_start(task);
    node.stop();
    assert!(lives(pid));
    node.start();
    node.stop_task(task, Millis::ZERO);
    assert!(node.wait_for_end(task).stopped);
    until("it is gone", || !lives(pid));
}
