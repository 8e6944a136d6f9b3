//! A private cluster for faults: a temporary folder, a server that is started and killed at will,
//! and its jobs. Everything that was started ends with it, also when the user interrupts.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_client::Client;
use gpool_sys::{pidfd, proc};
use gpool_wire::{Job, JobCreate};
use tempfile::TempDir;

use crate::bench::{failed, gpool};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval of checks.
const LOOK: Duration = Duration::from_millis(5);

/// Whether the user has interrupted.
#[derive(Debug, Clone, Default)]
pub struct Stop(pub Arc<AtomicBool>);

impl Stop {
    /// Watches for Ctrl-C and TERM, which then no longer end the program by themselves.
    pub fn watch() -> Result<Self> {
        let stop = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))
                .map_err(|error| failed(format!("can't wait for signals: {error}")))?;
        }
        Ok(stop)
    }

    /// Whether the user has interrupted.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if the user has interrupted.
    pub fn check(&self) -> Result<()> {
        match self.is_asked() {
            true => Err(failed("interrupted; everything is cleaned up").exit_with(Exit::DETACHED)),
            false => Ok(()),
        }
    }

    /// Polls until `look` returns a value.
    pub fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            self.check()?;
            if Instant::now() > deadline {
                return Err(failed(format!("never: {what}")));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Polls until a condition holds; returns the seconds.
    pub fn until_so(&self, what: &str, mut look: impl FnMut() -> bool) -> Result<f64> {
        let began = Instant::now();
        self.until(what, || look().then_some(()))?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Sleeps, and fails if the user interrupts.
    pub fn pause(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        Ok(())
    }
}

/// The cluster.
pub struct Rig {
    pub stop: Stop,
    folder: TempDir,
    devices: String,
    variables: Vec<(String, String)>,
    server: Option<Child>,
    mounted: bool,
}

impl Rig {
    /// Creates the folder of a cluster without starting it.
    pub fn new(devices: &str, stop: &Stop) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gpool-faults-").tempdir();
        let folder =
            folder.map_err(|error| failed(format!("can't create a temporary folder: {error}")))?;
        // Jobs of other users must reach the socket and their own folders.
        let mode = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(folder.path(), mode)
            .map_err(|error| failed(format!("can't open the folder: {error}")))?;
        let (devices, stop) = (devices.to_owned(), stop.clone());
        Ok(Self { stop, folder, devices, variables: Vec::new(), server: None, mounted: false })
    }

    /// Creates and starts a cluster.
    pub fn up(devices: &str, stop: &Stop) -> Result<Self> {
        let mut rig = Self::new(devices, stop)?;
        rig.start()?;
        Ok(rig)
    }

    /// Sets an environment variable of the server.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Mounts a file system of this size as the state folder.
    pub fn mount_small(&mut self, size: &str) -> Result<bool> {
        let state = self.state();
        std::fs::create_dir(&state).map_err(|error| failed(format!("no folder: {error}")))?;
        let options = format!("size={size},mode=711");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&state).stderr(Stdio::null());
        self.mounted = mount.status().is_ok_and(|status| status.success());
        Ok(self.mounted)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub fn socket(&self) -> PathBuf {
        self.path("s")
    }

    /// A client that gives up soon.
    pub fn client(&self) -> Client {
        Client::at(&self.socket()).with_retries(Duration::from_secs(2))
    }

    /// A client that waits while the server is away.
    pub fn patient_client(&self) -> Client {
        Client::at(&self.socket()).with_retries(PATIENCE)
    }

    /// Starts a server without waiting for it.
    pub fn launch(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.path("server.log"));
        let log = log.map_err(|error| failed(format!("can't write the log: {error}")))?;
        let mut command = self.command()?;
        command.args(["up", "--foreground", "--name", "lab1", "--devices", &self.devices]);
        command.arg("--state-dir").arg(self.state());
        command.envs(self.variables.iter().cloned()).stdin(Stdio::null()).stdout(Stdio::null());
        let started = command.process_group(0).stderr(log).spawn();
        self.server = Some(started.map_err(|error| failed(format!("no server: {error}")))?);
        Ok(())
    }

    /// Waits until the server answers.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let client = Client::at(&self.socket()).with_retries(Duration::ZERO);
        let stop = self.stop.clone();
        let server = &mut self.server;
        let mut is_over = false;
        stop.until("the server answers", || {
            is_over = server.as_mut().is_some_and(|it| matches!(it.try_wait(), Ok(Some(_))));
            (is_over || client.ready().is_ok()).then_some(())
        })?;
        if is_over {
            let said = std::fs::read_to_string(self.path("server.log")).unwrap_or_default();
            let failure = failed("the server ended");
            return Err(said
                .lines()
                .rev()
                .take(5)
                .fold(failure, |failure, line| failure.why(line)));
        }
        Ok(())
    }

    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// kill -9 of the server, and with it of the agent.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            drop(server.kill());
            drop(server.wait());
        }
    }

    /// Stops the server properly; running jobs go on.
    pub fn close(&mut self) -> Result<()> {
        self.client().shutdown(false).map_err(Failure::from)?;
        if let Some(mut server) = self.server.take() {
            wait_or_kill(&mut server);
        }
        Ok(())
    }

    pub fn server_pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Child::id)
    }

    /// Whether the last started server still runs.
    pub fn server_lives(&mut self) -> bool {
        self.server.as_mut().is_some_and(|server| matches!(server.try_wait(), Ok(None)))
    }

    /// The program `gpool` with the environment of this cluster.
    fn command(&self) -> Result<Command> {
        let mut command = Command::new(gpool()?);
        command.env("GPOOL_SOCKET", self.socket()).env("GPOOL_CONFIG", "/dev/null");
        command.current_dir("/");
        Ok(command)
    }

    /// Runs a verb, which must succeed, and returns its output.
    pub fn gpool(&self, words: &[&str]) -> Result<String> {
        let done = self.command()?.args(words).stdin(Stdio::null()).output();
        let done = done.map_err(|error| failed(format!("can't run gpool: {error}")))?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match done.status.success() {
            true => Ok(text(&done.stdout)),
            false => {
                Err(failed(format!("gpool {} failed", words.join(" "))).why(text(&done.stderr)))
            }
        }
    }

    /// Submits a job and returns its id.
    pub fn submit(&self, job: &JobCreate) -> Result<String> {
        let client = self.patient_client();
        Ok(client.submit(job, Some(&gpool_client::new_key())).map_err(Failure::from)?.id)
    }

    /// Waits for the end of a job.
    pub fn ended(&self, id: &str) -> Result<Job> {
        let client = self.patient_client();
        self.stop.until(&format!("job {id} ends"), || {
            client.job(id).ok().filter(|job| job.state.is_end())
        })
    }

    /// Waits until a file exists, and reads it.
    pub fn read(&self, name: &str) -> Result<String> {
        let path = self.path(name);
        self.stop.until(&format!("{name} is written"), || {
            std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
        })
    }

    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.path(name), text)
            .map_err(|error| failed(format!("can't write {name}: {error}")))
    }

    /// The living processes of a job, by the job's folder in their environment.
    pub fn processes_of(&self, id: &str) -> Vec<u32> {
        let folder = format!("GPOOL_DIR={}/", self.state().join("jobs").join(id).display());
        processes_with(folder.as_bytes())
    }

    /// Ends everything and removes the folder.
    pub fn end(mut self) -> Result<()> {
        self.clear();
        let folder = self.folder.path().to_owned();
        std::fs::remove_dir_all(&folder)
            .map_err(|error| failed(format!("can't remove {}: {error}", folder.display())))
    }

    fn clear(&mut self) {
        if !self.server_lives() && self.state().exists() && !self.stop.is_asked() {
            // A new server ends the jobs properly, with everything that belongs to them.
            drop(self.launch().and_then(|()| self.wait_until_ready()));
        }
        if let Some(mut server) = self.server.take() {
            let client = Client::at(&self.socket()).with_retries(Duration::ZERO);
            let client = client.with_timeout(Some(Duration::from_secs(20)));
            if client.shutdown(true).is_err() {
                drop(server.kill());
            }
            wait_or_kill(&mut server);
        }
        let folder = self.folder().as_os_str().as_encoded_bytes().to_vec();
        for _ in 0..100 {
            let left = processes_with(&folder);
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(kill);
            std::thread::sleep(LOOK);
        }
        for _ in 0..200 {
            if !self.mounted {
                break;
            }
            // The mount is busy until the last ended process has closed its files.
            let mut umount = Command::new("umount");
            umount.arg(self.state()).stderr(Stdio::null());
            self.mounted = !umount.status().is_ok_and(|status| status.success());
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Waits for a server to end, and kills it if it does not.
fn wait_or_kill(server: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while matches!(server.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            drop(server.kill());
            drop(server.wait());
        }
        std::thread::sleep(LOOK);
    }
}

/// The processes with these bytes in their environment.
fn processes_with(needle: &[u8]) -> Vec<u32> {
    let has = |pid: &u32| {
        let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        bytes.windows(needle.len()).any(|window| window == needle)
    };
    let own = std::process::id();
    proc::all().into_iter().filter(|pid| *pid != own).filter(has).collect()
}

/// kill -9.
pub fn kill(pid: u32) {
    if let Ok(Some(process)) = pidfd::open(pid) {
        drop(pidfd::signal(process, rustix::process::Signal::KILL.as_raw()));
    }
}

/// A job that runs a shell line.
pub fn shell(line: &str) -> JobCreate {
    JobCreate {
        command: ["sh", "-c", line].map(str::to_owned).to_vec(),
        directory: Some("/".to_owned()),
        environment: [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into(),
        ..JobCreate::default()
    }
}

/// A job with GPUs that runs a shell line.
pub fn on_gpus(n: u32, line: &str) -> JobCreate {
    JobCreate { gpus: Some(n.to_string()), ..shell(line) }
}

/// Pseudo-random numbers.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        use std::hash::{BuildHasher as _, RandomState};
        Self(RandomState::new().hash_one(0) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
