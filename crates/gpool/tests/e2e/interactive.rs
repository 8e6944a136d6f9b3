//! Jobs' terminals shown on real ones, further programs in jobs, and connections to jobs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;

use crate::harness::{Cluster, Running, Tty, until, until_so};
use crate::users::{NOBODY, as_nobody, as_user};

const ASKS: &str = "tty; stty size; read a; stty size; echo \"got $a\"; exit 7";

#[test]
fn a_jobs_terminal_has_the_size_of_the_users() {
    let cluster = Cluster::new("none");
    let mut tty = Tty::start(&cluster, &["run", "--pty", "--", "sh", "-c", ASKS]);
    tty.until_shows("/dev/pts/");
    tty.until_shows("30 90");
    assert!(tty.is_raw());
    tty.resize(44, 55);
    // The size change is sent before the keys that follow it.
    tty.types("hello\r");
    tty.until_shows("got hello");
    assert_eq!(tty.end(), 7);
    assert!(tty.seen.lock().unwrap().contains("44 55"));
    let id = cluster.all_ids().pop().unwrap();
    let log = cluster.stdout_of(&id);
    assert!(log.contains("30 90") && log.contains("got hello"), "it is in the log: {log}");
}

#[test]
fn a_detached_terminal_can_be_attached_again() {
    let cluster = Cluster::new("none");
    let line = "echo first; read a; echo \"second $a\"; exit 3";
    let mut tty = Tty::start(&cluster, &["run", "--pty", "--", "sh", "-c", line]);
    tty.until_shows("first");
    tty.types("\x1cd");
    assert_eq!(tty.end(), 130);
    let id = cluster.all_ids().pop().unwrap();
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    // The way that a window is closed does not matter.
    let mut killed = Tty::start(&cluster, &["attach", &id]);
    killed.until_shows("first");
    killed.signal(Signal::TERM);
    assert_eq!(killed.end(), 143);
    let mut tty = Tty::start(&cluster, &["attach", &id, "--detach-keys", "ctrl-p"]);
    tty.until_shows("first");
    tty.types("again\r");
    tty.until_shows("second again");
    assert_eq!(tty.end(), 3);
    cluster.gpool(["attach", &id]).refused(7, &["already ended", "GP0701"]);
}

#[test]
fn a_terminal_outlives_the_server_that_carried_it() {
    let mut cluster = Cluster::new("none");
    let line = "echo before; read a; echo \"after $a\"";
    let mut tty = Tty::start(&cluster, &["run", "--pty", "--", "sh", "-c", line]);
    tty.until_shows("before");
    let id = cluster.all_ids().pop().unwrap();
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    // After the reconnection, the last output is shown again.
    until_so("it to be shown again", || tty.seen.lock().unwrap().matches("before").count() > 1);
    tty.types("all\r");
    tty.until_shows("after all");
    assert_eq!(tty.end(), 0);
}

#[test]
fn the_prompt_of_a_shell_shows_its_job_and_the_time_left() {
    let cluster = Cluster::new("none");
    let mut tty = Tty::start(&cluster, &["shell", "--time", "2h", "--shell", "/bin/bash"]);
    // Two hours, or a second less.
    tty.until_shows("(job 1, ");
    tty.until_shows("m left)");
    tty.types("echo $((40 + 2)).\r");
    tty.until_shows("42.");
    // The prompt follows changes of the limit.
    cluster.gpool(["extend", "1", "+4h"]).ok();
    tty.until_prompts("(job 1, 5h");
    cluster.gpool(["extend", "1", "--to", "none"]).ok();
    tty.until_prompts("(job 1) ");
    tty.types("exit 4\r");
    assert_eq!(tty.end(), 4);
}

#[test]
fn a_program_in_a_job_has_its_group_environment_and_gpus_and_ends_with_it() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let look = "cat /proc/self/cgroup; env | grep -E '^(CUDA_VIS|GPOOL_)' | sort; id -u; pwd";
    let id = cluster.submit([
        "--gpus",
        "1",
        "--",
        "sh",
        "-c",
        &format!("{look}; touch ready; exec sleep 1000"),
    ]);
    until_so("the job has started", || cluster.work().join("ready").exists());
    let own = cluster.stdout_of(&id);
    let ran = cluster.gpool(["exec", &id, "--", "sh", "-c", look]);
    assert_eq!(ran.ok(), own);
    let ran = cluster.gpool(["exec", &id, "--", "sh", "-c", "echo out; echo err >&2; exit 9"]);
    assert_eq!((&*ran.out, &*ran.err, ran.code), ("out\n", "err\n", 9));
    let large = vec![b'x'; 3_000_000];
    let counted = cluster.gpool_reading(["exec", &id, "--", "wc", "-c"], &large);
    assert_eq!(counted.ok().trim(), "3000000");
    cluster.gpool(["exec", &id, "--", "no-such-program"]).refused(125, &["GP0253", "PATH"]);
    let mut beside = cluster.command();
    beside.args(["exec", &id, "--", "sh", "-c", "echo on; sleep 1000"]);
    let beside = Running::start(&mut beside, None);
    beside.until_says("on");
    cluster.gpool(["cancel", &id]).ok();
    assert_ne!(beside.end().code, 0);
    cluster.until_ended(&id);
    cluster.gpool(["exec", &id, "--", "true"]).refused(7, &["already ended", "GP0701"]);
    let held = cluster.submit(["--hold", "--", "true"]);
    cluster.gpool(["exec", &held, "--", "true"]).refused(7, &["held", "GP0702"]);
}

#[test]
fn a_port_of_a_job_is_reached_and_no_other() {
    let cluster = Cluster::new("none");
    let serve = "import socket\ns = socket.create_server(('127.0.0.1', 0))\n\
                 print(s.getsockname()[1], flush=True)\n\
                 while True:\n c, _ = s.accept()\n c.sendall(b'you said ' + c.recv(9))\n c.close()";
    let id = cluster.submit(["--", "python3", "-c", serve]);
    cluster.until_is(&id, "running");
    let port = until("its port", || {
        let log = cluster.gpool(["logs", &id]);
        log.out.trim().parse::<u16>().ok()
    });
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = stranger.local_addr().unwrap().port().to_string();
    let refused = cluster.gpool(["forward", &id, &other]);
    refused.refused(7, &["GP0721", &port.to_string()]);
    cluster.gpool(["forward", &id, "0"]).refused(2, &["is not a port"]);
    let forward = cluster.start(["forward", &id, &format!("0:{port}")]);
    forward.until_says("http://127.0.0.1:");
    forward.until_says("Ctrl-C");
    let said = forward.said();
    let local = said.split("127.0.0.1:").nth(1).unwrap().split_whitespace().next().unwrap();
    // `localhost` is either address, where the machine has both.
    let has_both = std::net::TcpListener::bind("[::1]:0").is_ok();
    for (word, address) in [("one", "127.0.0.1"), ("two", "127.0.0.1"), ("three", "[::1]")] {
        if address == "[::1]" && !has_both {
            continue;
        }
        let mut line = TcpStream::connect(format!("{address}:{local}")).unwrap();
        line.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        line.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, format!("you said {word}"));
    }
    cluster.gpool(["cancel", &id]).ok();
    assert_eq!(forward.end().code, 0, "it ends with the job");
}

#[test]
fn other_users_can_not_enter_a_job() {
    let Some(cluster) = crate::users::cluster() else { return };
    let id = cluster.submit(["--", "sleep", "1000"]);
    cluster.until_is(&id, "running");
    for words in [&["exec", &*id, "--", "id"][..], &["attach", &id], &["forward", &id, "8888"]] {
        as_nobody(&cluster, words).refused(5, &["GP0501"]);
    }
    // An admin can enter it, and acts as the job's user.
    let theirs = as_user(&cluster, NOBODY, &["submit", "--", "sleep", "1000"]).ok();
    let theirs = theirs.trim();
    cluster.until_is(theirs, "running");
    let look = "id -u; grep NoNewPrivs /proc/self/status";
    let ran = cluster.gpool(["exec", theirs, "--", "sh", "-c", look]);
    assert_eq!(ran.ok(), "65534\nNoNewPrivs:\t1\n");
}

#[test]
fn without_a_terminal_the_alternatives_are_shown() {
    let cluster = Cluster::new("none");
    cluster.gpool(["shell"]).refused(2, &["GP0250", "gpool run"]);
    cluster.gpool(["run", "--pty", "--", "ls"]).refused(2, &["GP0250", "--detach"]);
    let id = cluster.submit(["--", "sh", "-c", "echo its output"]);
    cluster.until_ended(&id);
    let ran = cluster.gpool(["attach", &id]);
    assert!(ran.out == "its output\n" && ran.err.contains("has no terminal"), "{ran:?}");
    cluster.gpool(["attach", "--detach-keys", "hello", &id]).refused(2, &["is not a key"]);
}

#[test]
fn a_watched_queue_follows_events_and_marks_changes() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.submit(["--hold", "--gpus", "1", "--", "sleep", "1000"]);
    let mut tty = Tty::start(&cluster, &["queue", "--watch=1h"]);
    tty.until_shows("0 of 1 GPU held  1 held");
    assert!(!tty.seen.lock().unwrap().contains(&format!("{id}*")), "nothing has changed");
    cluster.gpool(["release", &id]).ok();
    tty.until_shows("1 of 1 GPU held  1 running");
    tty.until_shows(&format!("{id}*"));
    let next = cluster.submit(["--gpus", "1", "--time", "1h", "--", "true"]);
    tty.until_shows(&format!("{next}*"));
    tty.types("q");
    assert_eq!(tty.end(), 0);
    tty.until_shows("\x1b[?1049l");
}

#[test]
fn a_watched_list_shows_the_time_and_ends_by_a_key_or_a_signal() {
    let cluster = Cluster::new("none");
    let id = cluster.submit(["--hold", "--name", "first", "--", "true"]);
    for verb in ["queue", "gpus"] {
        let mut tty = Tty::start(&cluster, &[verb, "--watch=100ms"]);
        tty.until_shows("every 100ms · q leaves");
        assert!(tty.is_raw(), "keys are not echoed");
        tty.types("xyz");
        tty.types("q");
        assert_eq!(tty.end(), 0);
        assert!(!tty.is_raw(), "the mode is restored");
        assert!(!tty.seen.lock().unwrap().contains("xyz"));
    }
    let mut tty = Tty::start(&cluster, &["queue", "--watch=100ms"]);
    tty.until_shows("first");
    cluster.gpool(["edit", &id, "--name", "second"]).ok();
    tty.until_shows("second");
    tty.types("\x03");
    assert_eq!(tty.end(), 0);
    let mut tty = Tty::start(&cluster, &["queue", "--watch=100ms"]);
    tty.until_shows("second");
    tty.signal(rustix::process::Signal::TERM);
    assert_eq!(tty.end(), 143);
    assert!(!tty.is_raw(), "the mode is restored");
}
