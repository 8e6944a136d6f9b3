//! A machine with files and processes of its own, inside this one: its root is a view of this
//! machine's, and what it writes is in memory. Only root can make it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::{Ran, Running, is_root, skip};

/// `$1` is the name, `$2` an empty folder, the others are folders that it shares with this machine.
/// The machine ends with standard input, and all its processes and mounts with it.
const START: &str = r#"
set -e
name=$1 at=$2
shift 2
mount --make-rprivate /
mount -t tmpfs gpool-guest "$at"
mkdir "$at/upper" "$at/work" "$at/root"
mount -t overlay -o "lowerdir=/,upperdir=$at/upper,workdir=$at/work" gpool-guest "$at/root"
cd "$at/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
for folder; do
    mkdir -p ".$folder"
    mount --bind "$folder" ".$folder"
done
hostname "$name"
# As the first process, it also takes the orphans.
exec chroot . bash -c 'echo ready; read -r _' "$name"
"#;

pub struct Guest {
    init: Child,
    /// The first process, as this machine counts.
    pid: u32,
    _input: ChildStdin,
}

impl Guest {
    /// A machine on the host of the network that `within` enters. `None` where it can't be made,
    /// with the reason as text.
    pub fn new(name: &str, folder: &Path, shared: &[&Path], within: &[String]) -> Option<Self> {
        if !is_root() {
            skip("only root makes machines of namespaces");
            return None;
        }
        std::fs::create_dir_all(folder).unwrap();
        let unshare = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"];
        let words = ["sh", "-c", START, "sh", name, folder.to_str().unwrap()];
        let mut all = within.iter().map(String::as_str).chain(unshare).chain(words);
        let mut command = Command::new(all.next().unwrap());
        command.args(all).args(shared).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut init = command.stderr(Stdio::piped()).spawn().unwrap();
        let input = init.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(init.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line != "ready\n" {
            let output = init.wait_with_output().unwrap();
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            skip(&format!("this machine makes no machines of namespaces: {why}"));
            return None;
        }
        let children = format!("/proc/{0}/task/{0}/children", init.id());
        let children = std::fs::read_to_string(children).unwrap();
        let pid = children.trim().parse().unwrap();
        Some(Self { init, pid, _input: input })
    }

    /// The words before a command that runs there.
    pub fn within(&self) -> Vec<String> {
        let target = self.pid.to_string();
        let spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"];
        let words = ["nsenter", "--target", &target].into_iter().chain(spaces).chain(["--"]);
        words.map(str::to_owned).collect()
    }

    /// Runs a shell line there, as root after a login.
    pub fn sh(&self, line: &str) -> Ran {
        let words = self.within();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["sh", "-c", line]).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", "/root").env("LANG", "C.UTF-8").env("TERM", "dumb");
        Running::start(&mut command, None).end()
    }

    /// A file there, by its path here.
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.pid)).join(name.trim_start_matches('/'))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
    }
}
