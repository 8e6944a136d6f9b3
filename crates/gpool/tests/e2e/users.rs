//! Other users: identified by the kernel, and isolated from each other. The server must run as
//! root.

use std::os::unix::process::CommandExt as _;

use crate::harness::{Cluster, Ran, Running, is_root, skip};

/// A user that every system has and that owns nothing.
pub const NOBODY: u32 = 65534;
/// Another user, without a name on most systems.
pub const SOMEBODY: u32 = 65533;

/// A server of root that other users can reach. `None`, with a message, if this process is not
/// root.
pub fn cluster() -> Option<Cluster> {
    if !is_root() {
        skip("only root can act as several users");
        return None;
    }
    let mut cluster = unstarted();
    cluster.up();
    Some(cluster)
}

/// The same, not started yet.
pub fn unstarted() -> Cluster {
    let cluster = Cluster::unstarted(&["--devices", "sim:2xH100-80G"]);
    // Other users must be able to run the program too.
    let program = cluster.path("gpool");
    // Copied by another process: a child that is being forked here might hold the file open for
    // writing.
    let mut copy = std::process::Command::new("cp");
    assert!(copy.arg(env!("CARGO_BIN_EXE_gpool")).arg(&program).status().unwrap().success());
    let open = |path: &std::path::Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
    };
    open(&program);
    for name in ["work", "home"] {
        open(&cluster.path(name));
    }
    cluster
}

/// Runs the command line as another user.
pub fn as_nobody(cluster: &Cluster, words: &[&str]) -> Ran {
    as_user(cluster, NOBODY, words)
}

pub fn as_user(cluster: &Cluster, uid: u32, words: &[&str]) -> Ran {
    let own = cluster.command();
    let mut command = std::process::Command::new(cluster.path("gpool"));
    command.env_clear().current_dir(cluster.work());
    command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.env_remove("XDG_RUNTIME_DIR").env("USER", "root").env("LOGNAME", "root");
    command.args(words).uid(uid).gid(uid);
    Running::start(&mut command, None).end()
}

#[test]
fn a_job_runs_as_its_submitter() {
    let Some(cluster) = cluster() else { return };
    let line = "id -u; id -g; id -G; grep NoNewPrivs /proc/self/status; env";
    let ran = as_nobody(&cluster, &["run", "--gpus", "1", "-e", "MINE=1", "--", "sh", "-c", line]);
    let out = ran.ok();
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some("65534"), "{out}");
    assert_eq!(lines.next(), Some("65534"), "{out}");
    // It has none of the server's groups.
    let groups = lines.next().unwrap();
    assert!(groups.split(' ').all(|group| group != "0"), "{out}");
    assert_eq!(lines.next(), Some("NoNewPrivs:\t1"), "{out}");
    assert!(out.contains("MINE=1"), "{out}");
    let job = cluster.job("1");
    assert_ne!(job.user, "root", "variables do not set the user");
    // Variables of root's server are not passed on.
    for name in ["GPOOL_STATE_DIR", "SUDO_", "XDG_RUNTIME_DIR"] {
        assert!(!out.contains(name), "{name} in {out}");
    }
    // The job can't write without permission either.
    let ran = as_nobody(&cluster, &["run", "--", "sh", "-c", "touch /etc/gpool-e2e-was-here"]);
    assert_ne!(ran.code, 0);
    assert_eq!(as_nobody(&cluster, &["logs", "1", "--tail", "1"]).code, 0);
}

#[test]
fn others_see_only_that_a_job_exists() {
    let Some(cluster) = cluster() else { return };
    let secret = "canary-77b1";
    let id = cluster.submit([
        "-J",
        secret,
        "--note",
        secret,
        "--gpus",
        "1",
        "--",
        "sh",
        "-c",
        &format!("echo {secret}; sleep 1000"),
    ]);
    cluster.until_is(&id, "running");
    for words in [&["queue", "--json"][..], &["show", &id, "--json"], &["why", &id], &["gpus"]] {
        let ran = as_nobody(&cluster, words);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!ran.out.contains(secret), "{words:?}: {ran:?}");
    }
    let shown = as_nobody(&cluster, &["show", &id, "--json"]).json();
    assert_eq!(
        (&shown["items"][0]["private"], &shown["items"][0]["user"]),
        (&true.into(), &"root".into())
    );
    for words in [
        &["cancel", &id][..],
        &["hold", &id],
        &["signal", "USR1", &id],
        &["prio", "-1", &id],
        &["note", &id, "hello"],
        &["logs", &id],
        &["gpus", "allow", "0"],
        &["down"],
        &["submit", "--priority", "5", "--", "true"],
    ] {
        let ran = as_nobody(&cluster, words);
        ran.refused(5, &[]);
        assert!(!ran.err.contains(secret), "{words:?}: {ran:?}");
    }
    let job = cluster.job(&id);
    assert_eq!((job.state.as_str(), job.version), ("running", cluster.job(&id).version));
    // `all` means the caller's own jobs.
    assert_eq!(as_nobody(&cluster, &["cancel", "all"]).code, 0);
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    // Other users can't read the files either.
    let stdout = cluster.state().join("jobs").join(&id).join("1/stdout");
    let mut cat = std::process::Command::new("cat");
    let read = cat.arg(&stdout).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert!(!read.status.success() && read.stdout.is_empty());
    let folder = cluster.state();
    let mut grep = std::process::Command::new("grep");
    let found = grep.args(["-rs", secret]).arg(&folder).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert!(found.stdout.is_empty());
}

#[test]
fn root_can_cancel_every_job() {
    let Some(cluster) = cluster() else { return };
    let id = as_nobody(&cluster, &["submit", "--gpus", "1", "--", "sleep", "1000"]).ok();
    let id = id.trim();
    let pid_owner = || {
        cluster.until_is(id, "running");
        let shepherd = cluster.shepherd(id);
        let children =
            std::fs::read_to_string(format!("/proc/{shepherd}/task/{shepherd}/children"));
        let child = children.unwrap();
        let child = child.split(' ').next().unwrap();
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(format!("/proc/{child}")).unwrap().uid()
    };
    assert_eq!(pid_owner(), NOBODY);
    cluster.gpool(["cancel", id]).ok();
    assert_eq!(cluster.until_ended(id).state.as_str(), "cancelled");
}

#[test]
fn users_can_change_their_own_pending_jobs() {
    let Some(cluster) = cluster() else { return };
    let id = as_nobody(&cluster, &["submit", "--hold", "-J", "theirs", "--", "true"]).ok();
    let id = id.trim();
    assert_eq!(as_nobody(&cluster, &["prio", "-5", id]).code, 0);
    as_nobody(&cluster, &["prio", "5", id]).refused(5, &["0"]);
    assert_eq!(as_nobody(&cluster, &["show", "theirs"]).code, 0);
    assert_eq!(as_nobody(&cluster, &["release", id]).code, 0);
    assert_eq!(cluster.until_ended(id).run.exit_code, Some(0));
    assert_eq!(as_nobody(&cluster, &["wait", id]).code, 0);
}

#[test]
fn actions_on_other_users_jobs_are_refused_with_a_permission_error() {
    let Some(cluster) = cluster() else { return };
    as_nobody(&cluster, &["sim", "break", "0"]).refused(5, &["GP0501", "user of the server"]);
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(cluster.socket(), closed).unwrap();
    as_nobody(&cluster, &["queue"]).refused(5, &["may not connect", "GP0308"]);
}

#[test]
fn another_user_sees_the_times_of_a_job_and_none_of_its_text() {
    let Some(cluster) = cluster() else { return };
    let names = ["-J", "secret-name", "--hold"];
    let id = cluster.submit(names.iter().chain(&["--", "secret-program"]));
    cluster.gpool(["edit", &id, "--note", "secret-note"]).ok();
    cluster.gpool(["release", &id]).ok();
    cluster.until_ended(&id);
    let own = cluster.gpool(["why", &id, "--json"]).json()["items"][0]["life"].clone();
    assert!(own.to_string().contains("secret-program"), "{own}");
    let seen = as_nobody(&cluster, &["why", &id, "--json"]).json();
    assert!(!seen.to_string().contains("secret"), "{seen}");
    let life = seen["items"][0]["life"].as_array().unwrap();
    let of = |life: &[serde_json::Value], name: &str| -> Vec<_> {
        life.iter().map(|event| event[name].clone()).collect()
    };
    let own = own.as_array().unwrap();
    assert_eq!(of(life, "type"), of(own, "type"));
    assert_eq!(of(life, "time"), of(own, "time"));
    let text = |kind: &str| {
        let found = life.iter().find(|event| event["type"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {life:#?}"))["text"].clone()
    };
    assert_eq!(text("started"), "starts on lab1, run 1");
    assert_eq!((text("released"), text("ended")), ("released".into(), "failed".into()));
    assert_eq!(text("edited"), "(private)");
    let page = as_nobody(&cluster, &["why", &id]).ok();
    assert!(page.contains(" failed at ") && !page.contains("secret"), "{page}");
    let events = as_nobody(&cluster, &["events", &id]).ok();
    assert!(events.contains("starts on lab1") && !events.contains("secret"), "{events}");
}
