//! Jobs in containers of docker. One daemon serves all tests here, one test at a time: some kill
//! the daemon. Its folder is a small file system in memory, which a test fills.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use gpool_model::job::JobState;

use crate::containers::{can_run, registry, rootfs};
use crate::harness::{Cluster, Gate, kill_9, skip, until, until_so};
use crate::recovery::waits_at;

/// The program of the daemon's package; another one may be first in `PATH`.
const CLIENT: &str = "/usr/bin/docker";

/// Runs a daemon below the folder `$1` again and again, until standard input ends: with the process
/// of the tests, however that ends.
const SUPERVISOR: &str = r#"
mkdir "$1" && mount -t tmpfs -o size=64m gpool-docker "$1" || exit 1
mkdir "$1/data" "$1/exec"
at="--data-root $1/data --exec-root $1/exec -p $1/d.pid -H unix://$1/d.sock"
net="--iptables=false --ip6tables=false --bridge=none"
while [ ! -e "$1/stop" ]; do
    rm -f "$1/d.pid"
    dockerd $at $net --live-restore --storage-driver vfs >> "$1/log" 2>&1
    sleep 0.2
done &
cat > /dev/null
rm -f "$1/data/filler"
timeout 60 sh -c "$2 -H unix://$1/d.sock ps --all --quiet | xargs -r $2 -H unix://$1/d.sock rm -f"
touch "$1/stop"
kill "$(cat "$1/d.pid")"
wait
umount "$1/exec/netns/default" "$1/data"
umount "$1" || umount -l "$1"
rmdir "$1"
"#;

/// A running daemon; it ends with standard input of its supervisor.
struct Daemon {
    folder: PathBuf,
    _supervisor: ChildStdin,
}

impl Daemon {
    /// The daemon of this process; `None` if none can run, with the reason as text.
    fn get() -> Option<&'static Self> {
        static DAEMON: OnceLock<Option<Daemon>> = OnceLock::new();
        let daemon = DAEMON.get_or_init(Self::start).as_ref();
        if daemon.is_none() {
            skip("no daemon of docker runs here; an earlier message has its log");
        }
        daemon
    }

    fn start() -> Option<Self> {
        let folder = PathBuf::from(format!("/tmp/gpool-docker-{}", std::process::id()));
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", SUPERVISOR, "sh"]).arg(&folder).arg(CLIENT);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let daemon = Self { folder, _supervisor: child.stdin.take().unwrap() };
        // It writes this line when it answers, or its log says why it does not run.
        let log = || std::fs::read_to_string(daemon.folder.join("log")).unwrap_or_default();
        let is_ready = until("the daemon runs or ends", || match log() {
            log if log.contains("API listen on") => Some(true),
            log if log.contains("failed to start daemon") => Some(false),
            _ => child.try_wait().unwrap().map(|_| false),
        });
        if !is_ready {
            skip(&log());
        }
        is_ready.then_some(daemon)
    }

    fn docker(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new(CLIENT);
        let socket = format!("unix://{}", self.folder.join("d.sock").display());
        let output = command.args(["-H", &socket]).args(words).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    #[track_caller]
    fn must(&self, words: &[&str]) -> String {
        self.docker(words).unwrap_or_else(|| panic!("docker {words:?}"))
    }

    fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.folder.join("d.pid")).ok()?.trim().parse().ok()
    }

    /// Kills the daemon; the supervisor starts the next one.
    fn kill(&self) {
        kill_9(self.pid().unwrap());
    }
}

/// A cluster with the image `tools:1`, and the daemon for one test.
struct Lab {
    cluster: Cluster,
    daemon: &'static Daemon,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    fn new(devices: &str) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());

        if !can_run(&["dockerd"]) {
            return None;
        }
        if !Path::new(CLIENT).exists() {
            skip(&format!("there is no {CLIENT}"));
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let daemon = Daemon::get()?;
        let cluster = Cluster::unstarted(&["--devices", devices]);
        let archive = rootfs(&cluster);
        until("the image is imported", || {
            daemon.docker(&["import", archive.to_str().unwrap(), "tools:1"])
        });
        let mut lab = Self { cluster, daemon, _turn: turn };
        let engine = lab.wrapper();
        let settings = lab.cluster.path("gpool.toml");
        std::fs::write(&settings, format!("container_engine = {engine:?}\n")).unwrap();
        lab.cluster.variables = vec![("GPOOL_CONFIG".to_owned(), settings.display().to_string())];
        lab.up();
        Some(lab)
    }

    fn up(&mut self) {
        self.cluster.up();
        let nodes = || self.cluster.client().nodes().unwrap().items;
        until_so("the engine is found", || nodes()[0].container_engine.is_some());
    }

    /// A program that is docker with the daemon of the tests.
    fn wrapper(&self) -> PathBuf {
        let path = self.cluster.path("docker");
        let socket = self.daemon.folder.join("d.sock");
        let script = format!("#!/bin/sh\nexec {CLIENT} -H unix://{} \"$@\"\n", socket.display());
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn containers(&self) -> String {
        until("the daemon answers", || {
            self.daemon.docker(&["ps", "--all", "--format", "{{.Names}}"])
        })
    }

    /// A job in a container that has printed `begun`.
    fn begun(&self, line: &str) -> String {
        let flags = ["--gpus", "1", "--grace", "1s", "--image", "tools:1"];
        let id = self.cluster.sh(&flags, &format!("echo begun; {line}"));
        until_so("it has begun", || self.cluster.gpool(["logs", &id]).out == "begun\n");
        id
    }

    /// The process IDs of the job's client of the engine.
    fn clients(&self, id: &str) -> Vec<u32> {
        let shepherd = self.cluster.shepherd(id).to_string();
        let children = Command::new("pgrep").args(["-P", &shepherd, "docker"]).output().unwrap();
        let children = String::from_utf8(children.stdout).unwrap();
        children.lines().map(|pid| pid.parse().unwrap()).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // For the next test, also after a failure.
        let Some(left) = self.daemon.docker(&["ps", "--all", "--quiet"]) else { return };
        for container in left.lines() {
            let _ = self.daemon.docker(&["rm", "--force", container]);
        }
    }
}

#[test]
fn a_job_runs_in_a_container_of_docker() {
    let Some(lab) = Lab::new("sim:2xA100-80G") else { return };
    let cluster = &lab.cluster;
    assert!(cluster.gpool(["nodes", "-o", "wide"]).ok().contains("docker "));
    let data = cluster.path("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("in"), "from the node\n").unwrap();
    let mount = format!("{}:/data:ro", data.display());
    cluster.gpool_reading(["secret", "set", "TOKEN"], b"not-for-all").ok();
    let gate = Gate::new(cluster, "work/gate");
    let line = format!(
        "echo in $(cat /data/in) at $(pwd) on $GPOOL_NODE with $GPOOL_GPUS; touch /data/out; \
         cat $GPOOL_SECRETS/TOKEN > made; touch $GPOOL_SECRETS/x; {}; exit 7",
        gate.line()
    );
    let words = ["run", "--gpus", "1", "--image", "tools:1", "--mount", &mount, "--secret"];
    let running = cluster.start(words.iter().copied().chain(["TOKEN", "--", "sh", "-c", &line]));
    running.until_says("in from the node");
    assert_eq!(cluster.gpool(["exec", "1", "--", "cat", "made"]).ok(), "not-for-all");
    gate.open();
    let ended = running.end();
    assert_eq!(ended.code, 7, "{ended:?}");
    let work = std::fs::canonicalize(cluster.work()).unwrap();
    assert_eq!(ended.out, format!("in from the node at {} on lab1 with 1\n", work.display()));
    assert_eq!(ended.err.matches("Read-only file system").count(), 2, "{ended:?}");
    assert_eq!(lab.containers(), "");

    // The user in the container, a script, and a program that does not exist.
    let words =
        ["run", "--image", "tools:1", "--workdir", "/tmp", "--container-user", "65534:65534"];
    let ran = cluster.gpool(words.into_iter().chain(["--", "sh", "-c", "pwd; id -u"]));
    assert_eq!(ran.ok(), "/tmp\n65534\n");
    std::fs::write(work.join("job.sh"), "#!/bin/sh\n# GPOOL --image tools:1\necho script $1\n")
        .unwrap();
    let id = cluster.submit(["job.sh", "word"]);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "script word\n");
    let ran = cluster.gpool(["run", "--image", "tools:1", "--", "no-such-program"]);
    assert_eq!(ran.code, 127, "{ran:?}");
    assert!(ran.err.contains("no-such-program"), "{ran:?}");
    assert_eq!(lab.containers(), "");
}

#[test]
fn signals_and_time_limits_reach_containers_of_docker() {
    let Some(lab) = Lab::new("sim:1xA100-80G") else { return };
    let cluster = &lab.cluster;
    let job = lab.begun("trap 'echo got; exit 3' USR1; while :; do sleep 0.05; done");
    cluster.gpool(["signal", "USR1", &job]).ok();
    assert_eq!(cluster.until_ended(&job).run.exit_code, Some(3));
    assert_eq!(cluster.gpool(["logs", &job]).ok(), "begun\ngot\n");

    let flags = ["--time", "1s", "--grace", "10s", "--image", "tools:1"];
    let job = cluster.sh(&flags, "trap 'echo term; exit 4' TERM; while :; do sleep 0.05; done");
    let ended = cluster.until_ended(&job);
    assert_eq!((ended.state, ended.run.exit_code), (JobState::TimedOut, Some(4)));
    assert_eq!(cluster.gpool(["logs", &job]).ok(), "term\n");

    // It ignores the request to end, so it is killed.
    let stubborn = lab.begun("trap '' TERM INT; while :; do sleep 0.05; done");
    cluster.gpool(["cancel", &stubborn]).ok();
    assert_eq!(cluster.until_ended(&stubborn).state, JobState::Cancelled);
    assert_eq!(lab.containers(), "");
}

/// A line that appends to a file of this name as long as its container runs.
fn writes(name: &str) -> String {
    format!("while :; do echo x >> {name}; sleep 0.02; done")
}

/// Checks that no process writes the file any more.
#[track_caller]
fn is_still(lab: &Lab, name: &str) {
    let size = || std::fs::metadata(lab.cluster.work().join(name)).map_or(0, |it| it.len());
    let before = size();
    // Another container takes longer than several lines would.
    let ran = lab.cluster.gpool(["run", "--image", "tools:1", "--", "sleep", "0.2"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(size(), before, "{name}");
}

#[test]
fn containers_of_docker_end_with_whatever_dies() {
    let Some(mut lab) = Lab::new("sim:1xA100-80G") else { return };
    // The client of the engine dies.
    let cut = lab.begun(&writes("client"));
    let clients = lab.clients(&cut);
    assert!(!clients.is_empty(), "the shepherd has no client");
    clients.into_iter().for_each(kill_9);
    assert_eq!(lab.cluster.until_ended(&cut).run.signal, Some(9));
    assert_eq!(lab.containers(), "");
    is_still(&lab, "client");

    // Its shepherd dies, and the container with it.
    let orphan = lab.begun(&writes("shepherd"));
    kill_9(lab.cluster.shepherd(&orphan));
    assert_eq!(lab.cluster.until_ended(&orphan).state, JobState::Lost);
    assert_eq!(lab.containers(), "");
    is_still(&lab, "shepherd");

    // The daemon dies: the client ends with it, and the job with its client.
    let cut = lab.begun(&writes("daemon"));
    lab.daemon.kill();
    let ended = lab.cluster.until_ended(&cut);
    assert_eq!((ended.state, ended.run.exit_code), (JobState::Failed, Some(125)));
    assert_eq!(lab.containers(), "");
    is_still(&lab, "daemon");

    // Shepherd and agent die: the next agent removes the container.
    let orphan = lab.begun(&writes("both"));
    let shepherd = lab.cluster.shepherd(&orphan);
    lab.cluster.kill();
    kill_9(shepherd);
    lab.up();
    assert_eq!(lab.cluster.until_ended(&orphan).state, JobState::Lost);
    assert_eq!(lab.containers(), "");
    is_still(&lab, "both");

    // The server with its agent dies; the next one takes the job over.
    let gate = Gate::new(&lab.cluster, "work/gate");
    let flags = ["--gpus", "1", "--image", "tools:1"];
    let kept = lab.cluster.sh(&flags, &waits_at(&gate));
    until_so("it has begun", || lab.cluster.gpool(["logs", &kept]).out == "begun\n");
    lab.cluster.kill();
    lab.up();
    assert_eq!(lab.cluster.job(&kept).state, JobState::Running);
    gate.open();
    assert_eq!(lab.cluster.until_ended(&kept).run.exit_code, Some(5));
    assert_eq!(lab.cluster.gpool(["logs", &kept]).ok(), "begun\ndone\n");
    assert_eq!(lab.containers(), "");
}

#[test]
fn an_agent_removes_containers_that_stayed_behind() {
    let Some(mut lab) = Lab::new("none") else { return };
    let id = lab.cluster.submit(["--image", "tools:1", "--", "true"]);
    assert_eq!(lab.cluster.until_ended(&id).run.exit_code, Some(0));
    // As if the daemon had been away at its end.
    let gate = Gate::new(&lab.cluster, "work/gate");
    let running = lab.cluster.sh(&["--image", "tools:1"], &waits_at(&gate));
    until_so("it has begun", || lab.cluster.gpool(["logs", &running]).out == "begun\n");
    let present = lab.containers().trim().to_owned();
    let (prefix, _) = present.split_once(&format!("-{running}-")).unwrap();
    let (orphan, other) = (format!("{prefix}-{id}-1-0"), "gpool-00000000-1-1-0");
    for name in [&orphan, other] {
        lab.daemon.must(&["create", "--name", name, "tools:1", "true"]);
    }
    lab.cluster.down(&[]);
    lab.up();
    let names = || {
        let names = lab.containers();
        let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    let mut expected = vec![present, other.to_owned()];
    expected.sort();
    until_so("the container is removed", || names() == expected);
    gate.open();
    assert_eq!(lab.cluster.until_ended(&running).run.exit_code, Some(5));
}

#[test]
fn docker_pulls_images_before_jobs_hold_gpus() {
    let Some(lab) = Lab::new("sim:1xA100-80G") else { return };
    let cluster = &lab.cluster;
    let never = ["--image", "other:1", "--pull", "never", "--", "true"];
    let held = cluster.submit(never);
    cluster.until_is(&held, "held");
    assert!(cluster.why(&held).contains("it does not have other:1"), "{}", cluster.why(&held));
    let gate = cluster.path("pull-gate");
    let (registry, host) = registry(cluster, &gate, Some("ana:not-for-all"));
    let image = format!("{host}/tool:1");
    let held = cluster.submit(["--image", &image, "--", "true"]);
    cluster.until_is(&held, "held");
    assert!(cluster.why(&held).contains(&format!("it can't pull {image}")));
    cluster.gpool_reading(["secret", "set", "REGISTRY"], b"ana:not-for-all").ok();
    let words = ["--gpus", "1", "--image", &image, "--image-login", "REGISTRY", "--"];
    let id = cluster.submit(words.iter().copied().chain(["echo", "pulled"]));
    cluster.until_is(&id, "waiting");
    // Its GPU is free for another job meanwhile.
    let other = cluster.sh(&["--gpus", "1"], "true");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
    std::fs::write(&gate, "").unwrap();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "pulled\n");
    lab.daemon.must(&["rmi", &image]);
    // An image that the registry does not have.
    let missing = image.replace("/tool:1", "/nothing:1");
    let held = cluster.submit(["--image", &missing, "--image-login", "REGISTRY", "--", "true"]);
    cluster.until_is(&held, "held");
    assert!(cluster.why(&held).contains(&format!("it can't pull {missing}")));

    // The store is full: the job is held with the reason, and runs once there is space.
    let filler = Filler::new(&lab.daemon.folder);
    let id = cluster.submit(words.iter().copied().chain(["echo", "again"]));
    cluster.until_is(&id, "held");
    assert!(cluster.why(&id).contains("no space left on device"), "{}", cluster.why(&id));
    // No space for a container: the job fails with the words of the engine.
    let ran = cluster.gpool(["run", "--image", "tools:1", "--", "true"]);
    assert_eq!(ran.code, 125, "{ran:?}");
    assert!(ran.err.contains("no space left on device"), "{ran:?}");
    drop(filler);
    cluster.gpool(["release", &id]).ok();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "again\n");
    assert_eq!(lab.containers(), "");
    registry.signal(rustix::process::Signal::KILL);
    registry.end();
}

/// A file that takes all space of the daemon's folder.
struct Filler(PathBuf);

impl Filler {
    fn new(folder: &Path) -> Self {
        let path = folder.join("data/filler");
        let mut dd = Command::new("dd");
        dd.arg("if=/dev/zero").arg(format!("of={}", path.display())).arg("bs=4k");
        // It ends when there is no more space.
        drop(dd.stderr(Stdio::null()).status());
        Self(path)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
