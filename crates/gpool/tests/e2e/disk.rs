//! A disk that is full or can't be written. Both need a file system of one's own, so root.

use std::path::Path;
use std::process::Command;

use crate::harness::{Cluster, Gate, is_root, skip, until_so};

/// Puts a small file system where the state is to be; false where that is not allowed.
fn mount_small(cluster: &Cluster, options: &str) -> bool {
    if !is_root() {
        skip("only root can mount a small file system");
        return false;
    }
    std::fs::create_dir(cluster.state()).unwrap();
    if !mount(&["-t", "tmpfs", "-o", options, "tmpfs"], &cluster.state()) {
        skip("a file system can't be mounted here");
        return false;
    }
    true
}

fn mount(words: &[&str], at: &Path) -> bool {
    Command::new("mount").args(words).arg(at).status().is_ok_and(|status| status.success())
}

/// Fills what is left.
fn fill(file: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(file).unwrap();
    let block = [0_u8; 4096];
    while file.write_all(&block).is_ok() {}
}

#[test]
fn a_full_disk_refuses_new_jobs_and_hurts_none_that_run() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    if !mount_small(&cluster, "size=4m,mode=711") {
        return;
    }
    cluster.up();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo begun; {}; echo done; exit 5", gate.line());
    let id = cluster.sh(&[], &line);
    until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
    let pid = cluster.server_pid();
    let ballast = cluster.state().join("ballast");
    fill(&ballast);
    // Some room may be left inside the store's own files; then it is full for sure.
    let mut acknowledged = Vec::new();
    let refused = loop {
        let ran = cluster.gpool(["submit", "--hold", "--", "true"]);
        if ran.code != 0 {
            break ran;
        }
        acknowledged.push(ran.out.trim().to_owned());
        assert!(acknowledged.len() < 5000, "it is never full");
    };
    refused.refused(1, &["no space left", "GP0907", "what was accepted is safe"]);
    assert_eq!(cluster.server_pid(), pid);
    // What is known can still be read.
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    for id in &acknowledged {
        assert_eq!(cluster.job(id).state.as_str(), "held");
    }
    gate.open();
    let out = cluster.state().join("jobs").join(&id).join("1/stdout");
    until_so("it has ended", || cluster.processes().len() <= 2 || !out.exists());
    std::fs::remove_file(&ballast).unwrap();
    // Without a restart.
    until_so("jobs are taken again", || cluster.gpool(["submit", "--", "true"]).code == 0);
    assert_eq!(cluster.server_pid(), pid);
    assert_eq!(cluster.until_ended(&id).exit_code, Some(5));
    let log = cluster.stdout_of(&id);
    let is_honest = log == "begun\ndone\n" || log.contains("[gpool:");
    assert!(is_honest, "{log:?}");
    for id in &acknowledged {
        assert_eq!(cluster.job(id).state.as_str(), "held");
    }
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 4"]).code, 4);
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}

#[test]
fn a_folder_that_can_not_be_written_is_said_and_not_died_of() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    if !mount_small(&cluster, "size=64m,mode=711") {
        return;
    }
    cluster.up();
    let held = cluster.submit(["--hold", "--", "true"]);
    cluster.down(&[]);
    assert!(mount(&["-o", "remount,ro"], &cluster.state()));
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let state = cluster.state();
    assert!(ran.err.contains("error:") && ran.err.contains(state.to_str().unwrap()), "{ran:?}");
    assert!(ran.err.to_lowercase().contains("read-only"), "{ran:?}");
    let ran = cluster.gpool(["up", "--devices", "none"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(mount(&["-o", "remount,rw"], &cluster.state()));
    cluster.up();
    assert_eq!(cluster.job(&held).state.as_str(), "held");
}
