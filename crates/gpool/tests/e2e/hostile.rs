//! Attacks by another user: a folder in place of the user's own socket, and output with terminal
//! escape sequences. The server must run as root.

use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Cluster, Ran, Running, Tty, skip};
use crate::recovery::says;
use crate::users::{NOBODY, SOMEBODY, as_nobody, cluster};

/// Runs the command line as user 64901, without any variable that names a socket, on a machine
/// whose server is the cluster's. No other test uses this user.
fn as_victim(cluster: &Cluster, words: &[&str]) -> Ran {
    let mut command = Command::new("unshare");
    let own = cluster.command();
    command.env_clear().envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
    for name in ["XDG_RUNTIME_DIR", "GPOOL_SOCKET", "GPOOL_STATE_DIR"] {
        command.env_remove(name);
    }
    let line = "mount -t tmpfs tmpfs /run && mkdir /run/gpool && \
                ln -s \"$1\" /run/gpool/api.sock && shift && \
                exec setpriv --reuid 64901 --regid 64901 --clear-groups \"$@\"";
    command.current_dir(cluster.work()).args(["-m", "sh", "-c", line, "sh"]);
    command.arg(cluster.socket()).arg(cluster.path("gpool")).args(words);
    Running::start(&mut command, None).end()
}

/// Removes the rest of the attack at the end of the test.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_folder_of_another_user_does_not_block_the_machines_server() {
    let Some(cluster) = cluster() else { return };
    let can = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !can("unshare") || !can("setpriv") || as_victim(&cluster, &["version"]).code != 0 {
        return skip("file systems can't be mounted here");
    }
    let folder = Path::new("/tmp/gpool-64901");
    let _removed = Removed(folder.to_owned());
    let theirs = cluster.path("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o777)).unwrap();
    let own = cluster.path("own");
    std::fs::create_dir(&own).unwrap();
    lchown(&own, Some(64_901), Some(64_901)).unwrap();
    let own_state = own.join("state");
    let own_state = own_state.to_str().unwrap();
    let remove = || drop(Removed(folder.to_owned()));
    let attacks: [(&str, &dyn Fn() -> Option<UnixListener>); 4] = [
        ("a folder with a socket on which the other user listens", &|| {
            std::fs::create_dir(folder).unwrap();
            std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
            let listener = UnixListener::bind(folder.join("api.sock")).unwrap();
            listener.set_nonblocking(true).unwrap();
            Some(listener)
        }),
        ("an empty folder that is closed", &|| {
            std::fs::create_dir(folder).unwrap();
            std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).unwrap();
            None
        }),
        ("a link to another folder", &|| {
            symlink(&theirs, folder).unwrap();
            None
        }),
        ("a file", &|| {
            std::fs::write(folder, "").unwrap();
            None
        }),
    ];
    for (what, attack) in attacks {
        remove();
        let listener = attack();
        lchown(folder, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        let ran = as_victim(&cluster, &["run", "-q", "-e", "TOKEN=secret", "--", "id", "-u"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "64901\n"), "{what}: {ran:?}");
        let ran = as_victim(&cluster, &["doctor"]);
        let noted = format!("skipped: user {SOMEBODY} created {}", folder.display());
        says(&ran, &["socket folder", &noted, "gpool up --socket"]);
        let ran = as_victim(&cluster, &["up", "--devices", "none", "--state-dir", own_state]);
        ran.refused(5, &["GP0305", &format!("user {SOMEBODY} made"), "gpool up --socket"]);
        let heard = listener.map(|listener| listener.accept().is_ok());
        assert_ne!(heard, Some(true), "{what}: the other user was asked");
    }
    remove();
    // A state folder inside another user's folder is refused too, and not searched for jobs.
    std::fs::create_dir(folder).unwrap();
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
    lchown(folder, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let state = folder.join("state");
    let socket = cluster.path("work").join("own.sock");
    let words = ["up", "--devices", "none", "--socket", socket.to_str().unwrap(), "--state-dir"];
    let ran = as_victim(&cluster, &[&words[..], &[state.to_str().unwrap()]].concat());
    ran.refused(5, &["GP0305", "gpool up --state-dir"]);
    assert!(!state.exists());
    let socket = folder.join("api.sock");
    let words = ["queue", "--server", socket.to_str().unwrap(), "--state-dir"];
    let ran = as_victim(&cluster, &[&words[..], &[state.to_str().unwrap()]].concat());
    ran.refused(
        3,
        &["warning: user", "can read requests", "can't see jobs of other users: skipped: user"],
    );
}

#[test]
fn a_step_in_another_users_job_gets_neither_terminal_nor_environment() {
    let Some(cluster) = cluster() else { return };
    let id = as_nobody(&cluster, &["submit", "--", "sleep", "1000"]).ok();
    let id = id.trim();
    cluster.until_is(id, "running");
    let srun = |words: &[&str]| {
        let jobid = format!("--jobid={id}");
        cluster.gpool([&["shim", "srun", &jobid], words].concat())
    };
    srun(&["env"]).refused(5, &["belongs to user nobody", "your terminal", "gpool exec"]);
    let out = as_nobody(&cluster, &["shim", "srun", &format!("--jobid={id}"), "id", "-u"]).ok();
    assert_eq!(out, format!("{NOBODY}\n"));
}

/// A program of another user that sets the title, requests the cursor position, clears the screen
/// and sets colours.
const HOSTILE: &str =
    "printf 'one\\033]0;evil\\007\\033[6n\\033[2J\\033[31mred\\233 50%%\\r99%%\\b!\\n'";
/// How it is shown.
const HARMLESS: &str = "one\\x1b]0;evil\\x07\\x1b[6n\\x1b[2J\\x1b[31mred\\x9b 50%\r99%\u{8}!\r\n";

#[test]
fn escape_sequences_of_other_users_jobs_are_not_interpreted() {
    let Some(cluster) = cluster() else { return };
    let line = format!("while :; do {HOSTILE}; read x || exit; done");
    let words = ["run", "--pty", "--detach", "--clean-env", "--", "sh", "-c", &line];
    let id = as_nobody(&cluster, &words).ok();
    let id = id.trim();
    cluster.until_is(id, "running");
    let raw = "\u{1b}]0;evil\u{7}";
    let mut tty = Tty::start(&cluster, &["attach", id]);
    tty.until_shows("belongs to another user");
    tty.types("\r");
    tty.until_shows(HARMLESS);
    tty.types("\u{1c}d");
    assert_eq!(tty.end(), 130);
    let seen = tty.seen.lock().unwrap().clone();
    assert!(!seen.contains(raw) && !seen.contains("\u{1b}[6n"), "{seen:?}");
    // `--raw` shows the output unchanged.
    let mut tty = Tty::start(&cluster, &["attach", "--raw", id]);
    tty.types("\r");
    tty.until_shows(raw);
    tty.types("\u{1c}d");
    assert_eq!(tty.end(), 130);

    let mut tty = Tty::start(&cluster, &["exec", id, "--", "sh", "-c", HOSTILE]);
    tty.until_shows(HARMLESS);
    assert_eq!(tty.end(), 0);
    assert!(!tty.seen.lock().unwrap().contains(raw));
    let mut tty = Tty::start(&cluster, &["exec", "--no-pty", id, "--", "sh", "-c", HOSTILE]);
    tty.until_shows("one\\x1b]0;evil\\x07");
    assert_eq!(tty.end(), 0);
    let line = format!("{HOSTILE} >&2");
    let mut tty = Tty::start(&cluster, &["exec", "--no-pty", id, "--", "sh", "-c", &line]);
    tty.until_shows("one\\x1b]0;evil\\x07");
    assert_eq!(tty.end(), 0);
    let mut tty = Tty::start(&cluster, &["exec", "--raw", id, "--", "sh", "-c", HOSTILE]);
    tty.until_shows(raw);
    assert_eq!(tty.end(), 0);
    // Into a file or pipe it goes unchanged.
    let ran = cluster.gpool(["exec", id, "--", "sh", "-c", "printf '\\033]0;evil\\007'"]);
    assert_eq!(ran.ok(), raw);
    cluster.gpool(["cancel", id]).ok();
    cluster.until_ended(id);
    // The job has ended: `attach` shows its log instead.
    let mut tty = Tty::start(&cluster, &["attach", id]);
    tty.end();
    assert!(!tty.seen.lock().unwrap().contains(raw));
    assert_eq!(cluster.job(id).user, "nobody", "user {NOBODY}");

    // The user's own job is shown unchanged.
    let mut tty = Tty::start(&cluster, &["run", "--pty", "--", "sh", "-c", HOSTILE]);
    tty.until_shows(raw);
    assert_eq!(tty.end(), 0);
    // A job without a terminal is followed.
    let line = format!("{HOSTILE}; sleep 1000");
    let id = as_nobody(&cluster, &["submit", "--", "sh", "-c", &line]).ok();
    cluster.until_is(id.trim(), "running");
    let tty = Tty::start(&cluster, &["attach", id.trim()]);
    tty.until_shows("one\\x1b]0;evil\\x07");
    assert!(!tty.seen.lock().unwrap().contains(raw));
}
