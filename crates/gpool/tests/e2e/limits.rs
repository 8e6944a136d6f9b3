//! Jobs that use all memory, or fork without end: they are ended, and nothing else is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Cluster, Gate, skip, until, until_so};

fn oom_score_adj(pid: u32) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    text.trim().parse().unwrap()
}

/// The children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let read = |dir: PathBuf| std::fs::read_to_string(dir.join("children")).unwrap_or_default();
    let lists: Vec<String> = tasks.map(|task| read(task.path())).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

/// Root in a container often lacks this permission.
fn may_lower_score() -> bool {
    let mut tries = Command::new("sh");
    tries.args(["-c", "echo -900 > /proc/self/oom_score_adj"]).stderr(Stdio::null());
    tries.status().is_ok_and(|status| status.success())
}

#[test]
fn the_kernel_kills_jobs_first() {
    let may_lower = may_lower_score();
    let cluster = Cluster::new("none");
    let id = cluster.sh(&[], "cat /proc/self/oom_score_adj; sleep 1000");
    until_so("the job has written it", || cluster.stdout_of(&id) == "0\n");
    let server = cluster.server_pid();
    let nursery = children(server);
    assert!(!nursery.is_empty());
    for pid in [server, cluster.shepherd(&id)].into_iter().chain(nursery) {
        let expected = if may_lower { -900 } else { oom_score_adj(std::process::id()) };
        assert_eq!(oom_score_adj(pid), expected, "process {pid}");
    }
    // If that does not work here, the doctor reports it.
    let found = cluster.gpool(["doctor", "--json"]).json().to_string();
    let words = if may_lower { "(its oom_score_adj -900)" } else { "CAP_SYS_RESOURCE" };
    assert!(found.contains(words), "{found}");
    if !may_lower {
        skip("in part: an oom_score_adj may not be lowered here");
    }
}

/// A control group with little memory, for a server and its jobs.
struct Small(PathBuf);

impl Small {
    const BYTES: u64 = 200 << 20;

    /// `None` if no such group can be made.
    fn new() -> Option<Self> {
        let name = format!("gpool-e2e-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory").join(&name);
        let v2 = Path::new("/sys/fs/cgroup").join(&name);
        let limits = [(v1, "memory.limit_in_bytes"), (v2, "memory.max")];
        limits.into_iter().find_map(|(dir, limit)| {
            std::fs::create_dir(&dir).ok()?;
            let group = Self(dir);
            std::fs::write(group.0.join(limit), Self::BYTES.to_string()).ok()?;
            Some(group)
        })
    }

    fn take(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// The number of processes that the kernel killed in it.
    fn n_ended(&self) -> u64 {
        let read = |file| std::fs::read_to_string(self.0.join(file)).unwrap_or_default();
        let text = read("memory.oom_control") + &read("memory.events");
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.map_or(0, |count| count.trim().parse().unwrap())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Its processes may take a moment to end.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn when_memory_is_short_for_all_jobs_go_first() {
    if !may_lower_score() {
        return skip("an oom_score_adj may not be lowered here");
    }
    let Some(small) = Small::new() else {
        return skip("no memory cgroup can be made");
    };
    // Dropped before the group.
    let cluster = Cluster::new("none");
    let server = cluster.server_pid();
    for pid in children(server).into_iter().chain([server]) {
        small.take(pid);
    }
    let gate = Gate::new(&cluster, "gate");
    let modest = cluster.sh(&[], &format!("echo begun; {}; exit 5", gate.line()));
    until_so("it has begun", || cluster.stdout_of(&modest) == "begun\n");
    let shepherd = cluster.shepherd(&modest);
    // None of its processes is as large as the server; together they are too large.
    let one = "(head -c 6m /dev/zero; exec sleep 1000) | tail > /dev/null &";
    let greedy = cluster.sh(&[], &format!("for n in $(seq 100); do {one} done; wait"));
    until_so("memory was short", || small.n_ended() >= 10);
    assert_eq!(cluster.server_pid(), server);
    assert!(cluster.client().ready().is_ok(), "{}", cluster.log());
    cluster.gpool(["cancel", &greedy]).ok();
    cluster.until_ended(&greedy);
    assert_eq!(cluster.shepherd(&modest), shepherd);
    assert_eq!(cluster.job(&modest).state.as_str(), "running");
    gate.open();
    assert_eq!(cluster.until_ended(&modest).run.exit_code, Some(5));
    let mut cluster = cluster;
    assert_eq!(cluster.down(&["--now"]).code, 0);
}

/// Forks processes that fork, each in its own session and ignoring SIGTERM, and starts again when
/// one is killed; a depth limits it where the kernel does not.
const BOMB: &str = r#"
trap '' TERM HUP INT
[ $1 -gt 7 ] || { setsid sh $0 $(($1+1)) & sh $0 $(($1+1)) & }
while :; do sleep 5; done
"#;

#[test]
fn a_fork_bomb_that_escapes_and_ignores_signals_ends_at_its_limit() {
    let cluster = Cluster::new("none");
    let bomb = cluster.path("bomb");
    std::fs::write(&bomb, BOMB).unwrap();
    let bomb = bomb.display().to_string();
    let words = ["--time", "3s", "--grace", "1s", "--", "sh", &bomb, "0"];
    let limited = cluster.submit(words);
    let words = ["--time", "1h", "--grace", "1s", "--", "sh", &bomb, "0"];
    let cancelled = cluster.submit(words);
    let n_left = |id: &str| {
        let wanted = format!("GPOOL_JOB_ID={id}");
        let is_of_job = |pid: &&u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
        };
        cluster.processes().iter().filter(is_of_job).count()
    };
    until("the bomb is large", || (n_left(&cancelled) > 100).then_some(()));
    // Other jobs are started and answered meanwhile.
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 3"]).code, 3);
    cluster.gpool(["cancel", &cancelled]).ok();
    assert_eq!(cluster.until_ended(&cancelled).state.as_str(), "cancelled");
    assert_eq!(n_left(&cancelled), 0);
    assert_eq!(cluster.until_ended(&limited).state.as_str(), "timed_out");
    assert_eq!(n_left(&limited), 0);
}
