//! The agent of one node: one thread carries out orders and waits for events, a second one polls
//! the devices. Every decision that `gpool_node::converge` can make is made there.

mod adopt;
mod away;
mod devices;
mod divide;
mod division;
pub(crate) mod done;
mod enforcement;
pub(crate) mod facts;
mod given;
mod grow;
mod idle;
mod input;
pub(crate) mod isolation;
pub(crate) mod job_files;
mod launch;
mod lease;
mod lend;
mod listener;
mod moves;
pub(crate) mod recent;
mod remap;
mod runner;
mod seen;
mod shares;
mod shepherds;
mod streams;
mod takeover;
mod task_state;
mod telemetry;
mod wake;

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpool_device::{Ignore, Opened};
use gpool_link::ServerLink;
use gpool_model::device::DeviceSample;
use gpool_model::id::{DeviceUuid, Incarnation, JobId, NodeName};
use gpool_model::job::JobSpec;
use gpool_model::unit::{Bytes, MilliCpu, Millis};
use gpool_protocol::{Hello, ToServer};
use gpool_sys::cgroup::Site;
use gpool_sys::{lock, pidfd, proc};
use thiserror::Error;

use crate::layout::Layout;
use devices::Devices;
use enforcement::Shim;
use isolation::Isolation;
use recent::RecentValues;
use runner::Runner;
use seen::Seen;
use shares::Shares;
use wake::Waker;

/// The configuration of an agent.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The folder for claims and output. The path must be text.
    pub state_dir: PathBuf,
    /// Folders of agents that are gone, whose jobs have ended: this agent reads and removes their
    /// output.
    pub older_dirs: Vec<PathBuf>,
    /// The node's name.
    pub node: NodeName,
    /// The program that forks shepherds if its first argument is [`crate::nursery::ARGUMENT`].
    pub shepherd_exe: PathBuf,
    /// The socket of the API, for the environment of jobs.
    pub api_socket: Option<String>,
    /// Size at which gpool's own output files are cut.
    pub output_limit: Bytes,
    /// Whether a task is stopped when its output is dropped: it reached the limit, or the disk is
    /// nearly full.
    pub stop_on_cut: bool,
    /// Most processes and threads of one job. `None` means [`AgentConfig::PIDS_MAX`] where that
    /// adds nothing to the start of a job. With cgroup v1 it adds up to 20 ms (measured 2026-11 on
    /// Linux 6.18: moving a process waits for an RCU grace period), so there it applies only if it
    /// is set.
    pub pids_max: Option<u32>,
    /// Most tasks at once.
    pub tasks_max: u32,
    /// Task slots that are reserved for jobs with GPUs, on a node that has devices; `None` is
    /// [`AgentConfig::gpu_tasks_kept`].
    pub gpu_tasks_kept: Option<u32>,
    /// Task slots of the node that one user may have; `None` is [`AgentConfig::user_tasks_max`].
    pub user_tasks_max: Option<u32>,
    /// CPU cores that can be booked; `None` means the cores of the machine.
    pub cpus: Option<MilliCpu>,
    /// Host memory that can be booked; `None` means the memory of the machine.
    pub memory: Option<Bytes>,
    /// Processes that do not count as use of a device.
    pub ignore: Ignore,
    /// How long a device must be free of unknown processes before jobs can use it again.
    pub unmanaged_grace: Millis,
    /// Whether the kernel keeps jobs from opening GPUs that are not theirs, where it can.
    pub isolate_gpus: bool,
    /// The longest time until a called loan of device memory is back.
    pub loan_deadline: Millis,
    /// A folder for files that name the jobs of each GPU, for dcgm-exporter.
    pub job_files: Option<PathBuf>,
    /// Makes the value of `TRACEPARENT` for a job, if jobs are traced.
    pub trace_context: Option<fn(JobId, &JobSpec) -> String>,
    /// Memory for the last hour of devices, and again for that of the metrics of jobs.
    pub recent: Bytes,
}

impl AgentConfig {
    /// Most processes and threads of one job by default: half of the least `pid_max` of Linux.
    pub const PIDS_MAX: u32 = 16_384;
    /// Most tasks at once by default.
    pub const TASKS_MAX: u32 = 512;
    /// Size at which output is cut by default.
    pub const OUTPUT_LIMIT: Bytes = Bytes::from_gib(1);
    /// Memory for recent values by default: the full hour of 500 devices.
    pub const RECENT: Bytes = Bytes::from_mib(32);

    /// The default number of task slots that are reserved for jobs with GPUs: 64, and on a small
    /// node an eighth.
    #[must_use]
    pub fn gpu_tasks_kept(tasks_max: u32) -> u32 {
        (tasks_max / 8).min(64)
    }

    /// The default number of a node's task slots that one user may have: four fifths.
    #[must_use]
    pub fn user_tasks_max(tasks_max: u32) -> u32 {
        (tasks_max - tasks_max.div_ceil(5)).max(1)
    }

    /// The default configuration, with this program as the one that forks shepherds.
    ///
    /// # Errors
    /// If this program's own path can't be found.
    pub fn new(state_dir: impl Into<PathBuf>, node: NodeName) -> io::Result<Self> {
        Ok(Self {
            state_dir: state_dir.into(),
            older_dirs: Vec::new(),
            node,
            shepherd_exe: std::env::current_exe()?,
            api_socket: None,
            output_limit: Self::OUTPUT_LIMIT,
            stop_on_cut: false,
            pids_max: None,
            tasks_max: Self::TASKS_MAX,
            gpu_tasks_kept: None,
            user_tasks_max: None,
            cpus: None,
            memory: None,
            ignore: Ignore::default(),
            unmanaged_grace: Millis::from_secs(5),
            isolate_gpus: true,
            loan_deadline: Millis::from_secs(30),
            job_files: None,
            trace_context: None,
            recent: Self::RECENT,
        })
    }
}

/// Why an agent could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// A path of the state directory can't be used.
    #[error("can't use {path}: {error}", path = path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The path can't be passed to a shepherd.
    #[error("the path of the state folder {path:?} is not UTF-8; choose another folder")]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// Another agent uses the state directory.
    #[error(
        "another agent uses {}; end it first, or choose another state folder",
        .path.display()
    )]
    InUse {
        /// The state directory.
        path: PathBuf,
    },
    /// Shepherds of an earlier agent have not claimed their tasks yet, and still could.
    #[error(
        "processes of an earlier agent are still starting a task: {}; end them, then start again",
        .holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Launching {
        /// Their process IDs.
        holders: Vec<u32>,
    },
    /// A system call failed.
    #[error("can't {what}: {error}")]
    System {
        /// What the agent tried to do.
        what: &'static str,
        /// Why it failed.
        #[source]
        error: io::Error,
    },
}

/// Starts agents.
pub struct Agent;

/// The last sample of each device.
type Samples = Arc<Mutex<BTreeMap<DeviceUuid, DeviceSample>>>;

/// A running agent. Dropping the handle leaves it running until the process ends;
/// [`AgentHandle::stop`] ends it. Its tasks outlive it either way.
pub struct AgentHandle {
    inputs: Sender<input::Input>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl Agent {
    /// How long a shepherd of an earlier agent may take to claim its task: usually a millisecond.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Starts an agent with its link to the server. It takes over the tasks of an earlier one,
    /// reports its inventory first, and then waits for orders.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is running then.
    pub fn start(
        config: AgentConfig,
        devices: Opened,
        server: &Arc<dyn ServerLink>,
    ) -> Result<AgentHandle, StartError> {
        let (layout, held) = take_folder(&config.state_dir)?;
        let launching = await_launches(&layout, Self::PATIENCE)?;
        prepare_process()?;
        let site = open_site(&config);
        let (inputs, taken) = channel();
        let waker = Waker::new().map_err(system("make an event descriptor"))?;
        let sender = input::InputSender::new(inputs.clone(), waker.clone());
        let (shim, seen) = (Shim::prepare(&layout, &devices), Seen::default());
        let shares = Shares::start(
            &layout,
            shim.clone(),
            seen.clone(),
            sender.clone(),
            config.loan_deadline,
        )
        .map_err(system("start a thread"))?;
        let filter = isolation::probe(config.isolate_gpus, &site);
        let isolation = Isolation::new(filter.is_ok());
        let (samples, recent) = (Samples::default(), RecentValues::new(config.recent));
        let (push, requests) = channel();
        let incarnation = input::incarnation();
        let inbox = listener::inbox(&incarnation, server, &sender, &recent, state_dirs(&config));
        server.listen(Arc::downgrade(&inbox));
        say_hello(&config, &incarnation, &**server);
        let about = devices::About {
            samples: Arc::clone(&samples),
            recent: recent.clone(),
            filter,
            shim,
            seen: seen.clone(),
            groups: enforcement::groups(&site),
            server: Arc::clone(server),
            push,
        };
        let devices = Devices::start(&config, devices, about, sender.clone())
            .map_err(system("start a thread"))?;
        let source = telemetry::Source {
            samples,
            facts: seen,
            site: site.clone(),
            owners: devices.owners(),
            inputs: sender.clone(),
        };
        let parts = runner::Parts {
            config,
            layout,
            site: site.clone(),
            _held: held,
            devices,
            shares,
            isolation,
            recent: recent.clone(),
            sender,
            server: Arc::clone(server),
            _inbox: inbox,
            incarnation,
        };
        let runner =
            Runner::new(parts, launching, taken, waker.clone()).map_err(system("watch events"))?;
        let thread = std::thread::Builder::new().name("agent".into());
        let thread = thread.spawn(move || runner.run()).map_err(system("start a thread"))?;
        telemetry::start(source, requests).map_err(system("start a thread"))?;
        Ok(AgentHandle { inputs, waker, thread })
    }
}

/// The state folder of the agent, and those of agents that are gone.
fn state_dirs(config: &AgentConfig) -> Arc<[PathBuf]> {
    std::iter::once(&config.state_dir).chain(&config.older_dirs).cloned().collect()
}

/// Makes the folders of an agent, and takes its lock.
fn take_folder(state_dir: &Path) -> Result<(Layout, File), StartError> {
    if state_dir.to_str().is_none() {
        return Err(StartError::NotText { path: state_dir.to_owned() });
    }
    let layout = Layout::new(state_dir);
    make_folders(&layout)?;
    let lock = take_lock(&layout)?;
    Ok((layout, lock))
}

fn system(what: &'static str) -> impl Fn(io::Error) -> StartError {
    move |error| StartError::System { what, error }
}

/// Checks and sets what this process needs to start and watch others.
fn prepare_process() -> Result<(), StartError> {
    if pidfd::open(std::process::id()).map_err(system("use pidfds (Linux 5.3)"))?.is_none() {
        let error = io::ErrorKind::NotFound.into();
        return Err(StartError::System { what: "see processes in /proc", error });
    }
    gpool_sys::signal::keep_ended_children();
    outlive_jobs();
    Ok(())
}

/// Sends the first message.
fn say_hello(config: &AgentConfig, incarnation: &Incarnation, server: &dyn ServerLink) {
    let (node, version) = (config.node.clone(), gpool_protocol::VERSION);
    server.send(&ToServer::Hello(Hello { version, node, incarnation: incarnation.clone() }));
}

fn make_folders(layout: &Layout) -> Result<(), StartError> {
    // Jobs of other users reach their own folders through the state directory. Other users may not
    // open claims; an earlier version allowed it, so the mode is set again.
    let closed = Permissions::from_mode(0o700);
    let make_tasks = |path: &Path| {
        make(path, 0o700).and_then(|()| std::fs::set_permissions(path, closed.clone()))
    };
    for (path, made) in [
        (layout.state().to_owned(), make(layout.state(), 0o711)),
        (layout.tasks(), make_tasks(&layout.tasks())),
    ] {
        made.map_err(|error| StartError::Folder { path, error })?;
    }
    Ok(())
}

impl AgentHandle {
    /// Ends the agent and waits for its end. Tasks go on.
    pub fn stop(self) {
        let _ = self.inputs.send(input::Input::Stop);
        self.waker.wake();
        // If the thread panicked, it has reported that itself.
        let _ = self.thread.join();
    }
}

/// How long to wait for the lock on the state folder before another agent counts as its holder.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

fn make(folder: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        other => other,
    }
}

/// Makes the kernel kill jobs before this process and its shepherds when memory is short; jobs
/// reset the value for themselves. Only root can do this.
fn outlive_jobs() {
    // Without it everything works as well, until memory is short.
    if let Ok(mut file) = File::options().write(true).open("/proc/self/oom_score_adj") {
        let _ = io::Write::write_all(&mut file, b"-900");
    }
}

/// Takes the lock on the state folder. A process that a killed agent had just forked also holds it,
/// until it runs its own program: this waits long enough for that, but not for another agent.
fn take_lock(layout: &Layout) -> Result<File, StartError> {
    let path = layout.lock();
    let folder = |error| StartError::Folder { path: path.clone(), error };
    let file = open_lock(&path).map_err(folder)?;
    let since = Instant::now();
    while !lock::try_lock(&file).map_err(folder)? {
        if since.elapsed() >= LOCK_PATIENCE {
            return Err(StartError::InUse { path: layout.state().to_owned() });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(file)
}

/// Waits until each shepherd that an earlier agent forked has claimed its task or ended, and takes
/// the lock that they hold. A task that is unclaimed afterwards stays so. Otherwise a task that
/// this agent refuses for its devices could still be launched on them.
pub fn await_launches(layout: &Layout, patience: Duration) -> Result<File, StartError> {
    let path = layout.launching();
    let folder = |error| StartError::Folder { path: path.clone(), error };
    let file = open_lock(&path).map_err(folder)?;
    let since = Instant::now();
    while !lock::try_lock(&file).map_err(folder)? {
        if since.elapsed() >= patience {
            return Err(StartError::Launching { holders: proc::holders_of(&path) });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(file)
}

fn open_lock(path: &Path) -> io::Result<File> {
    // Every process that can open the file can hold its lock.
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Opens the control groups of this state directory: the same after each start, and shared with no
/// other agent.
fn open_site(config: &AgentConfig) -> Site {
    let name = config.state_dir.as_os_str().as_encoded_bytes();
    let mut site = Site::open(&format!("gpool-{:016x}", crate::record::checksum(name)));
    // `Site::open` made it to see whether it works; it is not needed.
    if config.pids_max.is_none()
        && let Some(unused) = site.pids_v1.take()
    {
        // Fails if jobs of an earlier agent are in it.
        let _ = std::fs::remove_dir(unused);
    }
    site
}
