//! The demo, as a user would run it, but without a terminal.

use crate::harness::{Cluster, Running, Tty, processes_of, until, until_so};

#[test]
fn the_demo_succeeds_and_leaves_nothing_behind() {
    // Only for its folders: the demo starts its own cluster.
    let cluster = Cluster::unstarted(&[]);
    let mut command = cluster.command();
    command.env("TMPDIR", cluster.path("run")).args(["demo", "--devices", "sim:8xH100-80G"]);
    command.env_remove("GPOOL_SOCKET").env_remove("GPOOL_STATE_DIR");
    let ran = Running::start(&mut command, None).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("cleaned up") && !ran.out.contains('\u{1b}'), "{ran:?}");
    let left: Vec<_> = std::fs::read_dir(cluster.path("run")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    until_so("no process is left", || processes_of(&cluster.path("run")).is_empty());
}

#[test]
fn a_kept_demo_can_be_used_and_ended() {
    let cluster = Cluster::unstarted(&[]);
    let mut command = cluster.command();
    command.env("TMPDIR", cluster.path("run"));
    command.args(["demo", "--keep", "--devices", "sim:4xH100-80G"]);
    let ran = Running::start(&mut command, None).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    let socket = ran.out.lines().find_map(|line| line.strip_prefix("socket ")).unwrap();
    let on_it = |words: &[&str]| {
        let mut command = cluster.command();
        Running::start(command.env("GPOOL_SOCKET", socket).args(words), None).end()
    };
    assert!(on_it(&["queue", "--state", "all", "-o", "name"]).ok().lines().count() > 3);
    assert_eq!(on_it(&["run", "--gpus", "1", "--", "sh", "-c", "exit 3"]).code, 3);
    assert_eq!(on_it(&["down", "--now"]).code, 0);
    on_it(&["queue"]).refused(3, &[]);
    until_so("no process is left", || processes_of(&cluster.path("run")).is_empty());
}

#[test]
fn on_a_terminal_the_demo_goes_on_until_enter() {
    let cluster = Cluster::unstarted(&[]);
    let folder = cluster.path("run");
    let words = ["demo", "--devices", "sim:8xH100-80G"];
    let variables = [("TMPDIR", folder.to_str().unwrap()), ("SIM_GPU_LOAD", "80")];
    let mut tty = Tty::start_with(&cluster, &words, &variables);
    tty.until_shows("Press Enter");
    let seen = tty.seen.lock().unwrap().clone();
    let socket = seen.lines().find_map(|line| line.trim().strip_prefix("socket ")).unwrap();
    until("jobs that run, wait and use their GPUs", || {
        let mut command = cluster.command();
        let ran =
            Running::start(command.env("GPOOL_SOCKET", socket).args(["gpus", "-o", "json"]), None);
        let json: serde_json::Value = serde_json::from_str(&ran.end().ok()).ok()?;
        let gpus = json["items"].as_array()?;
        gpus.iter().any(|gpu| gpu["utilization"].as_f64() > Some(0.3)).then_some(())
    });
    tty.types("\r");
    assert_eq!(tty.end(), 0);
    until_so("no process is left", || processes_of(&folder).is_empty());
    assert!(std::fs::read_dir(&folder).unwrap().next().is_none());
}
