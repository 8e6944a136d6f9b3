//! A server that is there and does not answer: every command reports it and the jobs that go on,
//! and ends or waits; `doctor` and `down` find the process.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;

use rustix::process::Signal;

use crate::harness::{Cluster, Gate, Running, Tty, skip, until_so};
use crate::recovery::{n_asked, says, waits_at};
use crate::users;

#[test]
fn a_server_that_is_stopped_is_reported_by_every_command() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &waits_at(&gate));
    until_so("the job has begun", || cluster.stdout_of(&id).starts_with("begun"));
    cluster.signal_server(Signal::STOP);
    let pid = cluster.server_pid().to_string();
    let stopped = format!("the server (pid {pid}) does not answer: its process is stopped");
    let way_out = format!("kill -CONT {pid}");
    let commands = [
        &["status"][..],
        &["gpus"],
        &["nodes"],
        &["show", &id],
        &["why", &id],
        &["cancel", &id],
        &["exec", &id, "--", "true"],
        &["forward", &id, "8888"],
        &["attach", &id],
        &["report", &id],
        &["project", "list"],
        &["quota"],
        &["drain", "lab1", "--reason", "test"],
        &["retry", &id],
        &["history"],
        &["submit", "--", "true"],
        &["run", "--", "true"],
    ];
    let running: Vec<(_, Running)> =
        commands.iter().map(|words| (words, cluster.start(*words))).collect();
    for (words, running) in running {
        let ran = running.end();
        ran.refused(3, &["GP0309", &stopped, &way_out, "1 job runs without it: gpool queue"]);
        if ["submit", "run"].contains(&words[0]) {
            assert!(ran.err.contains("may have been submitted"), "{ran:?}");
            assert!(ran.err.contains("gpool show @"), "{ran:?}");
        }
    }
    let wait = cluster.start(["wait", &id, "--timeout", "1s"]);
    let ran = wait.end();
    ran.refused(8, &["GP0303"]);
    assert!(!ran.err.contains("the server answers again"), "{ran:?}");
    let (queue, logs, doctor) =
        (cluster.start(["queue"]), cluster.start(["logs", &id]), cluster.start(["doctor"]));
    queue.end().refused(3, &["GP0309", &stopped, "1 job runs without it", "runs"]);
    let ran = logs.end();
    assert_eq!((ran.code, ran.out.as_str()), (3, "begun\n"), "{ran:?}");
    let ran = doctor.end();
    assert_eq!(ran.code, 1, "{ran:?}");
    says(&ran, &[&stopped, &way_out, "gpool down", &format!("run without it: {id}")]);
    cluster.signal_server(Signal::CONT);
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
}

#[test]
fn waiting_commands_report_a_stopped_server_and_continue() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let beside = Gate::new(&cluster, "beside");
    let run = cluster.start(["run", "--", "sh", "-c", &waits_at(&gate)]);
    run.until_says("begun");
    let waiting = [
        cluster.start(["wait", "1"]),
        cluster.start(["logs", "-f", "1"]),
        cluster.start(["events", "-f", "1"]),
        cluster.start(["exec", "1", "--", "sh", "-c", &waits_at(&beside)]),
    ];
    waiting[1].until_says("begun");
    waiting[3].until_says("begun");
    let watching = cluster.start(["queue", "--watch=1s"]);
    watching.until_says("\"id\":\"1\"");
    until_so("all listen", || n_asked(&cluster, "/api/v1/events") >= 3);
    cluster.signal_server(Signal::STOP);
    let pid = cluster.server_pid();
    let silent =
        format!("the server (pid {pid}) does not answer: its process is stopped; running jobs");
    for one in waiting.iter().chain([&run]) {
        one.until_says(&silent);
    }
    watching.until_says("no server answers");
    cluster.signal_server(Signal::CONT);
    for one in [&run, &waiting[1], &watching] {
        one.until_says("the server answers again");
    }
    beside.open();
    let [wait, logs, events, exec] = waiting;
    let exec = exec.end();
    assert_eq!((exec.code, exec.out.as_str()), (5, "begun\ndone\n"), "{exec:?}");
    gate.open();
    let ran = run.end();
    assert_eq!((ran.code, ran.out.as_str()), (5, "begun\ndone\n"), "{ran:?}");
    assert_eq!(ran.err.matches(&silent).count(), 1, "{ran:?}");
    watching.until_says("\"gone\":\"1\"");
    watching.signal(Signal::TERM);
    let [wait, logs, events] = [wait, logs, events].map(Running::end);
    assert_eq!(wait.code, 5, "{wait:?}");
    assert_eq!((logs.code, logs.out.as_str()), (0, "begun\ndone\n"), "{logs:?}");
    assert_eq!(events.code, 0, "{events:?}");
    assert_eq!(watching.end().code, 143);
}

#[test]
fn a_terminal_reports_a_stopped_server_once_and_continues() {
    let cluster = Cluster::new("none");
    let line = "echo begun; read x; echo got $x; read x; exit 7";
    let mut tty = Tty::start(&cluster, &["run", "--pty", "--", "sh", "-c", line]);
    tty.until_shows("begun");
    cluster.signal_server(Signal::STOP);
    let silent = format!("[gpool: the server (pid {}) does not answer", cluster.server_pid());
    tty.until_shows(&silent);
    tty.types("word\r");
    cluster.signal_server(Signal::CONT);
    tty.until_shows("[gpool: the server answers again]");
    tty.until_shows("got word");
    tty.types("\r");
    assert_eq!(tty.end(), 7);
    let seen = tty.seen.lock().unwrap().clone();
    assert_eq!(seen.matches("does not answer").count(), 1, "{seen:?}");
}

#[test]
fn a_server_that_hangs_is_killed_if_the_user_agrees() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let stuck = ("GPOOL_STUCKPOINT".to_owned(), "server-command-heard".to_owned());
    cluster.variables.push(stuck);
    cluster.up();
    let stuck = cluster.start(["submit", "--", "true"]);
    until_so("the core is stuck", || liveness(&cluster).core_ms > 100);
    let mut tty = Tty::start(&cluster, &["down", "--timeout", "1s"]);
    tty.until_shows("Kill it? Its jobs keep running. [y/N]");
    tty.types("n\r");
    assert_eq!(tty.end(), 8);
    let mut tty = Tty::start(&cluster, &["down", "--timeout", "1s"]);
    tty.until_shows("[y/N]");
    tty.types("y\r");
    assert_eq!(tty.end(), 0);
    until_so("the server has ended", || cluster.has_died());
    stuck.end();
}

#[test]
fn down_continues_a_server_that_is_stopped() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &waits_at(&gate));
    cluster.until_is(&id, "running");
    cluster.signal_server(Signal::STOP);
    let pid = cluster.server_pid();
    let ran = cluster.down(&[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    says(
        &ran,
        &[
            &format!("the server (pid {pid}) was stopped by a signal; it continues"),
            "1 job keeps running",
        ],
    );
    cluster.up();
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
}

#[test]
fn another_user_may_not_continue_the_server() {
    let Some(cluster) = users::cluster() else { return };
    cluster.signal_server(Signal::STOP);
    // In another session: every process may continue processes of its own session.
    let mut down = std::process::Command::new("setsid");
    let own = cluster.command();
    down.env_clear().envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
    down.current_dir(cluster.work()).uid(users::NOBODY).gid(users::NOBODY);
    down.args(["-w"]).arg(cluster.path("gpool")).arg("down");
    let ran = Running::start(&mut down, None).end();
    let tip = format!("kill -CONT {}   (as its user or root)", cluster.server_pid());
    ran.refused(5, &["does not answer", &tip]);
    let ran = users::as_nobody(&cluster, &["queue"]);
    ran.refused(3, &["its process is stopped", "GP0309"]);
    cluster.signal_server(Signal::CONT);
    assert_eq!(users::as_nobody(&cluster, &["queue"]).code, 0);
}

/// The answer of the liveness socket.
fn liveness(cluster: &Cluster) -> gpool_wire::live::Liveness {
    let mut path = cluster.socket().into_os_string();
    path.push(gpool_wire::live::SUFFIX);
    let mut text = String::new();
    UnixStream::connect(path).unwrap().read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_stuck_core_is_distinguished_from_a_stopped_process() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &waits_at(&gate));
    cluster.until_is(&id, "running");
    assert_eq!(liveness(&cluster).pid, cluster.server_pid());
    cluster.kill();
    let stuck = ("GPOOL_STUCKPOINT".to_owned(), "server-command-heard".to_owned());
    cluster.variables.push(stuck);
    cluster.up();
    let stuck = cluster.start(["submit", "--", "true"]);
    until_so("the core is stuck", || liveness(&cluster).core_ms > 1000);
    assert!(
        cluster
            .client()
            .with_timeout(Some(std::time::Duration::from_secs(1)))
            .jobs(&gpool_client::JobsQuery::default())
            .is_err()
    );
    // It is not taken for a stopped server, and killed only with `--yes`.
    let down = |flags: &[&str]| cluster.gpool(["down", "--timeout", "1s"].iter().chain(flags));
    down(&[]).refused(8, &["does not answer", "gpool down --yes", "jobs continue"]);
    assert_eq!(liveness(&cluster).pid, cluster.server_pid());
    let ran = down(&["--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    says(&ran, &["killed; jobs keep running"]);
    stuck.end().refused(3, &["may have been submitted"]);
    until_so("the server has ended", || cluster.has_died());
    cluster.variables.clear();
    cluster.up();
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
}

#[test]
fn a_server_with_too_few_open_files_is_refused_and_one_with_enough_answers() {
    let cluster = Cluster::unstarted(&[]);
    let up = |n: u32| {
        let words = format!("ulimit -n {n}; exec \"$0\" up --devices none --name lab1");
        let command = cluster.command();
        let program = command.get_program().to_owned();
        let mut limited = std::process::Command::new("sh");
        limited.env_clear().envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        limited.current_dir(cluster.work()).args(["-c", &words]).arg(program);
        Running::start(&mut limited, None).end()
    };
    up(63).refused(1, &["64 open files", "63 are allowed", "ulimit -n 4096"]);
    up(20).refused(1, &["64 open files", "20 are allowed"]);
    assert_eq!(up(64).code, 0);
    let id = cluster.submit(["--", "true"]);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.gpool(["down"]).code, 0);
}
