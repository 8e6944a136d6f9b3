//! A node under test: an agent in a separate process, and its reports.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use gpool_model::JobRequest;
use gpool_model::agent::{LaunchContext, Order, Report, TaskEnd, TaskIs, TaskOrder};
use gpool_model::allocation::{Allocation, AllocationState, Slot, SlotPart};
use gpool_model::device::Device;
use gpool_model::gpu::GpuRequest;
use gpool_model::id::{Attempt, Generation, JobId, NodeName, PoolName, TaskId, Term};
use gpool_model::job::{BlobId, EndCause, ExitStatus, JobSpec, Owner};
use gpool_shepherd::layout::Layout;

use gpool_model::resource::Resources;
use gpool_model::unit::{Millis, Timestamp};

/// Longer than any operation takes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// The setting of a node without control groups.
const WITHOUT_GROUPS: &str = "without groups";
/// Removes control groups for a program in its own mount namespace.
const UNGROUP: &str = "umount --all --types cgroup2";

pub struct Node {
    pub folder: tempfile::TempDir,
    settings: Vec<String>,
    agent: Option<Agent>,
    /// All reports, of all agents of the node.
    pub reports: Vec<Report>,
}

struct Agent {
    process: Child,
    orders: ChildStdin,
    reports: Receiver<Report>,
}

impl Node {
    /// A node without devices.
    pub fn new() -> Self {
        Self::with(&["none"])
    }

    /// A node with devices and settings, as `gpool-agent-host` takes them.
    pub fn with(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Jobs of other users must be able to reach their own folders.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(folder.path(), open).unwrap();
        std::fs::create_dir(folder.path().join("blobs")).unwrap();
        let settings = settings.iter().map(|it| (*it).to_owned()).collect();
        let mut node = Self { folder, settings, agent: None, reports: Vec::new() };
        node.context(&LaunchContext {
            environment: vec![(b"PATH".to_vec(), b"/usr/local/bin:/usr/bin:/bin".to_vec())],
            ..LaunchContext::default()
        });
        node.start();
        node.wait_for("inventory", |report| {
            matches!(report, Report::Inventory { .. }).then_some(())
        });
        node
    }

    /// Sets the launch context of later jobs.
    pub fn context(&self, context: &LaunchContext) {
        self.blob("context", &serde_json::to_vec(context).unwrap());
    }

    pub fn blob(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join("blobs").join(name), bytes).unwrap();
    }

    /// A node that can't make control groups. `None`, with a message, where only root could remove
    /// them.
    pub fn without_groups(settings: &[&str]) -> Option<Self> {
        let tries = Command::new("unshare").args(["--mount", "sh", "-c", UNGROUP]).status();
        if !tries.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: control groups can't be removed here");
            return None;
        }
        Some(Self::with(&[settings, &[WITHOUT_GROUPS]].concat()))
    }

    pub fn start(&mut self) {
        let program = env!("CARGO_BIN_EXE_gpool-agent-host");
        let (without, settings): (Vec<&String>, Vec<&String>) =
            self.settings.iter().partition(|it| *it == WITHOUT_GROUPS);
        let mut command = match without.is_empty() {
            true => Command::new(program),
            false => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", &format!("{UNGROUP} && exec \"$@\""), "sh"]);
                command.arg(program);
                command
            }
        };
        let mut process = command
            .arg(self.folder.path())
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (send, reports) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = send.send(serde_json::from_str(&line).unwrap());
            }
        });
        self.agent = Some(Agent { process, orders, reports });
    }

    /// The agent's process ID.
    pub fn agent(&self) -> u32 {
        self.agent.as_ref().unwrap().process.id()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.process.kill().unwrap();
        agent.process.wait().unwrap();
        self.reports.extend(agent.reports.try_iter());
    }

    /// Stops the agent regularly.
    pub fn stop(&mut self) {
        let Agent { mut process, orders, .. } = self.agent.take().unwrap();
        drop(orders);
        assert!(process.wait().unwrap().success());
    }

    pub fn order(&mut self, order: &Order) {
        let orders = &mut self.agent.as_mut().unwrap().orders;
        writeln!(orders, "{}", serde_json::to_string(order).unwrap()).unwrap();
    }

    pub fn run(&mut self, job: &JobSpec) -> TaskId {
        self.run_on(job, &[])
    }

    pub fn run_on(&mut self, job: &JobSpec, devices: &[&Device]) -> TaskId {
        let order = order(job, devices);
        let task = order.task();
        self.order(&Order::Run(Box::new(order)));
        task
    }

    pub fn stop_task(&mut self, task: TaskId, grace: Millis) {
        let (term, generation) = (Term(1), Generation(2));
        self.order(&Order::Stop { term, task, generation, grace, signal: None });
    }

    /// Stops a task with `signal`, so that it can save its work.
    pub fn save_task(&mut self, task: TaskId, signal: i32, grace: Millis) {
        let (term, generation, signal) = (Term(1), Generation(2), Some(signal));
        self.order(&Order::Stop { term, task, generation, grace, signal });
    }

    /// Pauses a task.
    pub fn pause_task(&mut self, task: TaskId, generation: u64) {
        let (term, generation) = (Term(1), Generation(generation));
        self.order(&Order::Pause { term, task, generation, runs_on: false });
    }

    pub fn resume_task(&mut self, task: TaskId, generation: u64) {
        let (term, generation) = (Term(1), Generation(generation));
        self.order(&Order::Resume { term, task, generation, devices: Vec::new() });
    }

    /// Waits until a report of this generation shows the task as paused or running.
    pub fn wait_for_halt(&mut self, task: TaskId, generation: u64, is_paused: bool) {
        let what = if is_paused { "it is paused" } else { "it goes on" };
        self.wait_for(what, |report| match report {
            Report::Task(it) if it.task == task && it.generation == Generation(generation) => {
                let fits = match it.is {
                    TaskIs::Paused { .. } => is_paused,
                    TaskIs::Running { .. } => !is_paused,
                    _ => false,
                };
                fits.then_some(())
            }
            _ => None,
        });
    }

    pub fn acknowledge(&mut self, task: TaskId) {
        let (term, generation) = (Term(1), Generation(2));
        self.order(&Order::Acknowledge { term, task, generation });
    }

    /// Waits for the first report that `look` accepts, past or future.
    pub fn wait_for<T>(&mut self, what: &str, mut look: impl FnMut(&Report) -> Option<T>) -> T {
        let give_up = Instant::now() + PATIENCE;
        let mut next = 0;
        loop {
            while next < self.reports.len() {
                if let Some(found) = look(&self.reports[next]) {
                    return found;
                }
                next += 1;
            }
            let left = give_up.saturating_duration_since(Instant::now());
            match self.agent.as_mut().unwrap().reports.recv_timeout(left) {
                Ok(report) => self.reports.push(report),
                Err(error) => panic!("no {what} ({error}); reports were {:#?}", self.reports),
            }
        }
    }

    fn wait_for_task<T>(
        &mut self,
        what: &str,
        task: TaskId,
        look: impl Fn(&TaskIs) -> Option<T>,
    ) -> T {
        self.wait_for(&format!("{what} of {task}"), |report| match report {
            Report::Task(report) if report.task == task => look(&report.is),
            Report::Tasks { tasks, .. } => {
                tasks.iter().find(|report| report.task == task).and_then(|report| look(&report.is))
            }
            _ => None,
        })
    }

    pub fn wait_for_end(&mut self, task: TaskId) -> TaskEnd {
        self.wait_for_task("end", task, |is| match is {
            TaskIs::Ended(end) => Some(end.clone()),
            _ => None,
        })
    }

    pub fn wait_for_start(&mut self, task: TaskId) -> u32 {
        self.wait_for_task("start", task, |is| match is {
            TaskIs::Running { pid, .. } => Some(*pid),
            _ => None,
        })
    }

    pub fn wait_for_refusal(&mut self, task: TaskId) -> usize {
        self.wait_for_task("refusal", task, |is| match is {
            TaskIs::Refused { devices } => Some(devices.len()),
            _ => None,
        })
    }

    /// Runs a job to its end and forgets it.
    pub fn finish(&mut self, job: &JobSpec) -> TaskEnd {
        let task = self.run(job);
        let end = self.wait_for_end(task);
        self.acknowledge(task);
        end
    }

    /// Runs a job that can't be launched and returns the reason.
    pub fn failure(&mut self, job: &JobSpec) -> String {
        match self.finish(job) {
            TaskEnd { cause: Some(EndCause::LaunchFailed { why }), started_at: None, .. } => why,
            end => panic!("launched: {end:?}"),
        }
    }

    pub fn layout(&self) -> Layout {
        Layout::new(self.folder.path())
    }

    pub fn stdout(&self, task: TaskId) -> String {
        written(&self.layout().stdout(task))
    }

    pub fn stderr(&self, task: TaskId) -> String {
        written(&self.layout().stderr(task))
    }

    /// A path that jobs and tests share.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.process.kill();
            let _ = agent.process.wait();
        }
        // Jobs that a failed test has left: their environment has the path of this folder.
        let mark = format!("GPOOL_DIR={}", self.folder.path().display());
        for pid in gpool_sys::proc::all() {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if environment.windows(mark.len()).any(|window| window == mark.as_bytes())
                && let Ok(Some(process)) = gpool_sys::pidfd::open(pid)
            {
                let _ = gpool_sys::pidfd::signal(process, 9);
            }
        }
        let name = self.folder.path().as_os_str().as_encoded_bytes();
        gpool_sys::cgroup::Site::open(&format!("gpool-{:016x}", checksum(name))).close();
    }
}

/// FNV-1a, as in the agent's names and claims.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A job of this process's user.
pub fn job(number: u64, command: &[&str]) -> JobSpec {
    JobSpec {
        retry_of: None,
        joins: None,
        id: JobId::single(number),
        owner: Owner {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            user: Arc::from("tester"),
        },
        script: None,
        context: BlobId(Arc::from("context")),
        setup: None,
        submitted_at: Timestamp::ZERO,
        request: JobRequest {
            name: Arc::from("test"),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            gpus: GpuRequest::whole(0),
            gpus_written: Arc::from("0"),
            grace: Millis::new(200),
            ..JobRequest::default()
        },
    }
}

pub fn shell(number: u64, script: &str) -> JobSpec {
    job(number, &["sh", "-c", script])
}

pub fn order(job: &JobSpec, devices: &[&Device]) -> TaskOrder {
    let slot = |device: &&Device| Slot {
        index: device.index,
        device: device.uuid.clone(),
        part: SlotPart::Whole,
    };
    TaskOrder {
        parts: Vec::new(),
        term: Term(1),
        generation: Generation(1),
        spec: Arc::new(job.clone()),
        allocation: Allocation {
            task: TaskId { job: job.id, attempt: Attempt::FIRST, rank: 0 },
            node: NodeName::new("node"),
            slots: devices.iter().map(slot).collect(),
            resources: Resources::none(),
            state: AllocationState::Placed,
        },
        pool: PoolName::usual(),
        has_gate: false,
        sharer: None,
        nodes: Vec::new(),
        master_addr: String::new(),
    }
}

/// Waits until a condition is true by polling, since a file system sends no events.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process exists and is not a zombie.
pub fn lives(pid: u32) -> bool {
    gpool_sys::proc::stat(pid).is_some_and(|stat| stat.state != b'Z')
}

/// The shepherd that claimed a task.
pub fn shepherd_of(node: &Node, task: TaskId) -> u32 {
    let text = std::fs::read_to_string(node.layout().claim(task)).unwrap();
    let (_, rest) = text.split_once("\"shepherd\":").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

/// kill -9, if the process still exists.
/// Whether a task is lost because this signal ended its shepherd; without a signal, nothing shows
/// how the shepherd ended.
pub fn is_lost(end: &TaskEnd, signal: Option<i32>, left: bool) -> bool {
    match end.cause {
        Some(EndCause::ShepherdEnded { by, may_be_left, .. }) => {
            may_be_left == left && by == signal.map(ExitStatus::Signal)
        }
        _ => false,
    }
}

pub fn kill(pid: u32) {
    if let Some(process) = gpool_sys::pidfd::open(pid).unwrap() {
        gpool_sys::pidfd::signal(process, 9).unwrap();
    }
}

/// A process ID that a job writes into a file.
pub fn written_pid(path: &Path) -> u32 {
    let mut pid = None;
    until(&format!("a process id in {}", path.display()), || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        pid = text.strip_suffix('\n').and_then(|text| text.parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

/// A process that has nothing to do with any job.
pub struct Stranger(Child);

impl Stranger {
    pub fn new() -> Self {
        Self(
            Command::new("sleep")
                .arg("600")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub const fn code(code: i32) -> Option<ExitStatus> {
    Some(ExitStatus::Code(code))
}

pub const fn signal(signal: i32) -> Option<ExitStatus> {
    Some(ExitStatus::Signal(signal))
}

/// The output of a job so far; the file is made at the first byte.
fn written(path: &Path) -> String {
    match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}
