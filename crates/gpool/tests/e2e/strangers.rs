//! Process IDs are reused soon in a namespace with few of them: unrelated processes get the IDs of
//! shepherds and jobs that have ended, and none of them is ever signalled.

use std::collections::VecDeque;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Cluster, is_root, kill_9, skip, until_so};

/// Set for the test that runs inside the namespace.
const INSIDE: &str = "GPOOL_TEST_FEW_PROCESS_IDS";
/// IDs below this are never reused.
const FIRST_REUSED: u32 = 300;
const ID_MAX: u32 = 480;

/// Why such a namespace is not possible here, if so.
fn missing() -> Option<String> {
    if !is_root() {
        return Some("only root can create a namespace of process IDs".to_owned());
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(14)) {
        return Some(format!("Linux {release} has one maximum process ID for all namespaces"));
    }
    let can = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).status();
    (!can.is_ok_and(|status| status.success())).then(|| "unshare does not work here".to_owned())
}

#[test]
fn with_few_process_ids_no_unrelated_process_is_signalled() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if let Some(why) = missing() {
        return skip(&why);
    }
    let own = std::thread::current().name().unwrap().to_owned();
    // The shell is the first process and adopts orphans.
    let out = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .args(["sh", "-c", "\"$0\" \"$@\"; exit $?"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &own])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat())
    );
}

fn stranger() -> Child {
    Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap()
}

fn end(mut stranger: Child) {
    let early = stranger.try_wait().unwrap();
    assert!(early.is_none(), "a stranger was ended: {early:?}");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Unrelated processes with these IDs, found by trying.
fn strangers_with(ids: &[u32]) -> Vec<Child> {
    let mut found = Vec::new();
    // All IDs, twice.
    for _ in 0..2 * ID_MAX {
        let one = stranger();
        if ids.contains(&one.id()) {
            found.push(one)
        } else {
            end(one)
        }
        if found.len() == ids.len() {
            return found;
        }
    }
    panic!("the ids {ids:?} did not reuse");
}

fn is_there(pid: u32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

fn inside() {
    std::fs::write("/proc/sys/kernel/pid_max", ID_MAX.to_string()).unwrap();
    loop {
        let one = stranger();
        let id = one.id();
        end(one);
        if id >= FIRST_REUSED {
            break;
        }
    }
    ids_of_the_dead();
    while_all_is_busy();
}

/// Unrelated processes have the IDs of a killed server, shepherd and job when the next server
/// starts.
fn ids_of_the_dead() {
    let mut cluster = Cluster::new("none");
    for n_servers in 0..3 {
        let id = cluster.sh(&["--grace", "1s"], "echo begun; exec sleep 1000");
        until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
        let shepherd = cluster.shepherd(&id);
        let task = std::fs::read_to_string(format!("/proc/{shepherd}/task/{shepherd}/children"));
        let main: u32 = task.unwrap().trim().parse().unwrap();
        let mut dead = vec![shepherd, main];
        if n_servers > 0 {
            dead.push(cluster.server_pid());
            cluster.kill();
        }
        kill_9(shepherd);
        if n_servers > 0 {
            kill_9(main);
        }
        until_so("they are gone", || !dead.iter().any(|pid| is_there(*pid)));
        let strangers = strangers_with(&dead);
        if n_servers > 0 {
            cluster.up();
        }
        assert_eq!(cluster.until_ended(&id).state.as_str(), "lost");
        cluster.gpool(["cancel", &id]).refused(7, &["ended"]);
        cluster.gpool(["signal", "TERM", &id]).refused(7, &["ended"]);
        assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 3"]).code, 3);
        strangers.into_iter().for_each(end);
    }
    assert_eq!(cluster.down(&["--now"]).code, 0);
}

/// Unrelated processes come and go with changing IDs, while jobs of all kinds are ended in all
/// ways.
fn while_all_is_busy() {
    static OVER: AtomicBool = AtomicBool::new(false);
    let crowd = std::thread::spawn(|| {
        let (mut crowd, mut n_strangers) = (VecDeque::new(), 0);
        while !OVER.load(Ordering::SeqCst) {
            crowd.push_back(stranger());
            n_strangers += 1;
            if crowd.len() > 30 {
                crowd.pop_front().into_iter().for_each(end);
            }
        }
        crowd.into_iter().for_each(end);
        n_strangers
    });
    let cluster = Cluster::new("none");
    let leaves = "setsid sleep 1000 & (sleep 1000 &) & sleep 0.05; exit 5";
    let stays = "trap '' TERM; setsid sleep 1000 & while :; do sleep 0.02; done";
    for _ in 0..8 {
        let left = cluster.sh(&[], leaves);
        let limited = cluster.sh(&["--time", "1s", "--grace", "0s"], stays);
        let cancelled = cluster.sh(&["--grace", "0s"], stays);
        cluster.until_is(&cancelled, "running");
        cluster.gpool(["signal", "CONT", &cancelled]).ok();
        cluster.gpool(["cancel", &cancelled]).ok();
        assert_eq!(cluster.until_ended(&cancelled).state.as_str(), "cancelled");
        assert_eq!(cluster.until_ended(&limited).state.as_str(), "timed_out");
        assert_eq!(cluster.until_ended(&left).run.exit_code, Some(5));
    }
    OVER.store(true, Ordering::SeqCst);
    let n_strangers = crowd.join().unwrap();
    assert!(n_strangers > ID_MAX, "the ids went round: {n_strangers}");
}
