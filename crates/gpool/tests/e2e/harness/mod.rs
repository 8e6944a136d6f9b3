//! A cluster of one node in a temporary folder, and the command line as a user has it. All
//! processes of the cluster end with it.

mod gate;
mod guest;
mod hosts;
mod machine;
mod processes;
mod program;
mod running;
mod system;
mod tty;

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpool_client::Client;
use gpool_wire::{Gpu, Job};
use rustix::process::{Pid, Signal};

pub use gate::Gate;
pub use guest::Guest;
pub use hosts::{Cut, Hosts};
pub use machine::{Machine, membership};
pub use processes::{kill_9, processes_of, within};
pub use program::program;
pub use running::{Ran, Running};
pub use system::{is_root, skip, write_private};
pub use tty::Tty;

/// Longer than any operation takes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(180);

/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(10);
/// The same after a long wait: a check costs the server a request, or the machine a process.
const LOOK_MAX: Duration = Duration::from_millis(100);

/// Repeats `look` until it returns a value.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let waited = begun.elapsed();
        assert!(waited < PATIENCE, "not in time: {what}");
        std::thread::sleep((waited / 32).clamp(LOOK, LOOK_MAX));
    }
}

/// Waits until a condition is true.
pub fn until_so(what: &str, mut look: impl FnMut() -> bool) {
    until(what, || look().then_some(()));
}

pub struct Cluster {
    folder: tempfile::TempDir,
    flags: Vec<String>,
    /// For the server only.
    pub variables: Vec<(String, String)>,
    server: Option<Child>,
    /// Whether its servers find no control groups of version 2; only root can do this.
    pub is_without_groups: bool,
    /// The words before the command of its servers.
    pub within: Vec<String>,
}

impl Cluster {
    /// A running cluster with these devices.
    pub fn new(devices: &str) -> Self {
        Self::with(&["--devices", devices])
    }

    /// A running cluster with these flags of `up`.
    pub fn with(flags: &[&str]) -> Self {
        let mut cluster = Self::unstarted(flags);
        cluster.up();
        cluster
    }

    /// The folders of a cluster that does not run yet.
    pub fn unstarted(flags: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("gpool-e2e-").tempdir().unwrap();
        // Jobs of other users must be able to reach their own folders.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o711)).unwrap();
        for name in ["home", "run", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let variables = Vec::new();
        let within = Vec::new();
        Self { folder, flags, variables, server: None, is_without_groups: false, within }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub fn socket(&self) -> PathBuf {
        self.path("api.sock")
    }

    /// The working directory of commands.
    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    pub fn set_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// The program, with a clean environment.
    pub fn command(&self) -> Command {
        let mut command = Command::new(program());
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.path("home"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("XDG_STATE_HOME", self.path("home"))
            .envs([("LANG", "C.UTF-8"), ("TERM", "dumb"), ("TZ", "UTC")])
            .env("GPOOL_STATE_DIR", self.state())
            .env("GPOOL_SOCKET", self.socket())
            // Tests set the use of simulated GPUs themselves.
            .env("SIM_GPU_LOAD", "off")
            .current_dir(self.work());
        command
    }

    pub fn gpool<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> Ran {
        self.start(words).end()
    }

    /// The page of `gpool why` as one line.
    #[track_caller]
    pub fn why(&self, id: &str) -> String {
        self.gpool(["why", id]).ok().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub fn start<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> Running {
        Running::start(self.command().args(words), None)
    }

    pub fn gpool_reading<A: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Ran {
        Running::start(self.command().args(words), Some(input.to_vec())).end()
    }

    /// Submits with these arguments and returns the ID.
    #[track_caller]
    pub fn submit<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> String {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        let all: Vec<_> = std::iter::once("submit".into()).chain(words).collect();
        let out = self.gpool(all).ok();
        out.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {out:?}")).to_owned()
    }

    /// Submits a shell line.
    #[track_caller]
    pub fn sh(&self, flags: &[&str], line: &str) -> String {
        self.submit(flags.iter().copied().chain(["--", "sh", "-c", line]))
    }

    pub fn client(&self) -> Client {
        Client::at(&self.socket())
    }

    pub fn job(&self, id: &str) -> Job {
        self.client().job(id).unwrap_or_else(|error| panic!("job {id}: {error}"))
    }

    #[track_caller]
    pub fn until_is(&self, id: &str, state: &str) -> Job {
        until(&format!("job {id} is {state}"), || {
            let job = self.job(id);
            let is_so = job.state.as_str() == state;
            assert!(is_so || !job.state.is_end(), "not {state}: {job:?}");
            is_so.then_some(job)
        })
    }

    pub fn until_ended(&self, id: &str) -> Job {
        until(&format!("job {id} has ended"), || {
            Some(self.job(id)).filter(|job| job.state.is_end())
        })
    }

    pub fn stdout_of(&self, id: &str) -> String {
        self.gpool(["logs", "--stdout", id]).ok()
    }

    pub fn gpu(&self, index: usize) -> Gpu {
        self.client().gpus().unwrap().items.swap_remove(index)
    }

    /// The state of a device as one word, as in JSON.
    pub fn gpu_state(&self, index: usize) -> String {
        serde_json::json!(self.gpu(index).state).as_str().unwrap().to_owned()
    }

    pub fn until_gpu_is(&self, index: usize, state: &str) -> Gpu {
        until(&format!("GPU {index} is {state}"), || {
            Some(self.gpu(index)).filter(|gpu| serde_json::json!(gpu.state) == state)
        })
    }

    /// The device indexes of a job.
    pub fn devices_of(&self, id: &str) -> Vec<u32> {
        self.job(id).placement.into_iter().flat_map(|placed| placed.devices).collect()
    }

    /// The IDs of all jobs.
    pub fn all_ids(&self) -> Vec<String> {
        let out = self.gpool(["queue", "--state", "all", "-n", "0", "-o", "name"]).ok();
        out.lines().map(str::to_owned).collect()
    }

    /// Starts a server without waiting for it; it writes to `server.log`.
    pub fn launch(&mut self) {
        assert!(self.server.is_none(), "a server is already running");
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("server.log"))
            .unwrap();
        let mut command = self.command();
        if self.is_without_groups {
            let line = "umount --all --types cgroup2; exec \"$0\" \"$@\"";
            command = within(&command, &["unshare", "--mount", "sh", "-c", line]);
        }
        if !self.within.is_empty() {
            let words: Vec<&str> = self.within.iter().map(String::as_str).collect();
            command = within(&command, &words);
        }
        // A file of nodes contains their names.
        let are_named = self.flags.iter().any(|flag| flag.ends_with("nodes.toml"));
        command.args(["up", "--foreground"]).args(&self.flags);
        command.args(if are_named { &[][..] } else { &["--name", "lab1"] });
        command.envs(self.variables.iter().cloned()).stdin(Stdio::null()).stdout(Stdio::null());
        self.server = Some(command.stderr(log).spawn().unwrap());
    }

    pub fn up(&mut self) {
        self.launch();
        self.until_ready();
    }

    #[track_caller]
    pub fn until_ready(&mut self) {
        until("the server is ready", || {
            if let Some(status) = self.server.as_mut().unwrap().try_wait().unwrap() {
                panic!("the server ended ({status}): {}", self.log());
            }
            self.is_ready().then_some(())
        });
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("server.log")).unwrap_or_default()
    }

    pub fn server_pid(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    pub fn signal_server(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.server_pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends the server by a signal; it must exit successfully.
    pub fn end_by(&mut self, signal: Signal) {
        self.signal_server(signal);
        let status = self.server.take().unwrap().wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Whether the server has ended by itself; then another one can be launched.
    pub fn has_died(&mut self) -> bool {
        let ended = |server: &mut Child| server.try_wait().unwrap().is_some();
        let has_died = self.server.as_mut().is_some_and(ended);
        if has_died {
            self.server = None;
        }
        has_died
    }

    /// Whether there is a server that is not known to have ended.
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Whether it answers now.
    pub fn is_ready(&self) -> bool {
        let connects = std::os::unix::net::UnixStream::connect(self.socket()).is_ok();
        connects && self.client().with_retries(Duration::ZERO).ready().is_ok()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// `gpool down` with these flags; the server ends by itself.
    pub fn down(&mut self, flags: &[&str]) -> Ran {
        let mut server = self.server.take().unwrap();
        // Reaped meanwhile: a zombie would look like a living process.
        let waits = std::thread::spawn(move || server.wait().unwrap());
        let ran = self.gpool(std::iter::once("down").chain(flags.iter().copied()));
        assert!(waits.join().unwrap().success(), "{}", self.log());
        ran
    }

    /// All living processes of this cluster.
    pub fn processes(&self) -> Vec<u32> {
        processes_of(self.folder.path())
    }

    /// The process ID of a job's shepherd.
    pub fn shepherd(&self, id: &str) -> u32 {
        let parent = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
        };
        let wanted = format!("GPOOL_JOB_ID={id}");
        let is_of_job = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
        };
        until("the job has a process", || {
            let own: Vec<u32> = self.processes().into_iter().filter(is_of_job).collect();
            // The shepherd is the parent that is not itself a process of the job.
            own.iter().find_map(|pid| parent(*pid).filter(|parent| !own.contains(parent)))
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "server.log: {}", self.log());
        }
        // A process that is killed may just have forked another.
        for _ in 0..100 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(kill_9);
            std::thread::sleep(LOOK);
        }
        for name in ["state/task-secrets", "lab2/agent/task-secrets", "state/jobs", "state", "full"]
        {
            let mount = self.path(name);
            // Of the tests of disks and secrets, if jobs did not end.
            if is_mounted(&mount) {
                // Killed processes may still have it open for a moment.
                let _ = Command::new("umount").arg("-l").arg(&mount).status();
            }
        }
    }
}

fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == path))
}
