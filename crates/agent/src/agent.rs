//! The agent of one node: one thread carries out orders and waits for events, a second one polls
//! the devices. Every decision that `gpool_node::converge` can make is made there.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpool_device::Opened;
use gpool_link::ServerLink;
use gpool_model::id::Incarnation;
use gpool_protocol::{Hello, ToServer};
use gpool_sys::cgroup::Site;
use gpool_sys::{lock, pidfd, proc};
use thiserror::Error;

use crate::accounts::UserRule;
use crate::config::AgentConfig;
use crate::devices::{Devices, Samples};
use crate::enforcement::Shim;
use crate::folders::Folders;
use crate::images::Containers;
use crate::isolation::Isolation;
use crate::recent::RecentValues;
use crate::runner::Runner;
use crate::shared_facts::SharedFacts;
use crate::shares::Shares;
use crate::topology::FoundPlace;
use crate::wake::Waker;
use crate::{devices, enforcement, input, isolation, listener, runner, telemetry};
use gpool_shepherd::layout::Layout;

/// Why an agent could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// A path of the state directory can't be used.
    #[error("can't use {path}: {error}", path = path.display())]
    Folder {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// The path can't be passed to a shepherd.
    #[error("the path of the state folder {path:?} is not UTF-8; choose another folder")]
    NotText { path: PathBuf },
    /// Another agent uses the state directory.
    #[error(
        "another agent uses {}; end it first, or choose another state folder",
        .path.display()
    )]
    InUse { path: PathBuf },
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
        #[source]
        error: io::Error,
    },
}

pub struct Agent;

/// A running agent. Dropping the handle leaves it running until the process ends;
/// [`AgentHandle::stop`] ends it. Its tasks outlive it either way.
pub struct AgentHandle {
    inputs: Sender<input::ThreadInput>,
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
        let (shim, seen) = (Shim::prepare(&layout, &devices), SharedFacts::default());
        let deadline = config.loan_deadline;
        let shares = Shares::start(&layout, shim.clone(), seen.clone(), sender.clone(), deadline)
            .map_err(system("start a thread"))?;
        let filter = isolation::probe(config.isolate_gpus, &site);
        let isolation = Isolation::new(filter.is_ok());
        let (samples, recent) = (Samples::default(), RecentValues::new(config.recent));
        let (push, requests) = channel();
        let incarnation = input::incarnation();
        let inbox = listener::inbox(&incarnation, server, &sender, &recent, files(&config));
        server.listen(Arc::downgrade(&inbox));
        say_hello(&config, &incarnation, &**server);
        let containers = Containers::search(config.container_engine.clone(), &layout);
        let folders = Folders::open(&layout, server, &sender, config.file_cache_max)
            .map_err(system("use its folder of working folders"))?;
        let about = devices::About {
            containers: containers.clone(),
            place: FoundPlace::search(),
            samples: Arc::clone(&samples),
            recent: recent.clone(),
            filter,
            shim,
            facts: seen.clone(),
            groups: enforcement::groups(&site),
            server: Arc::clone(server),
            push,
        };
        let devices = Devices::start(&config, devices, about, sender.clone())
            .map_err(system("start a thread"))?;
        let source = telemetry::TelemetrySource {
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
            containers,
            folders,
        };
        let runner = Runner::new(parts, launching, taken, waker.clone());
        let thread = run(runner.map_err(system("watch events"))?)?;
        telemetry::start(source, requests).map_err(system("start a thread"))?;
        Ok(AgentHandle { inputs, waker, thread })
    }
}

/// The state folder of the agent, and those of agents that are gone; and whether the users of files
/// there have other IDs than on the server.
fn files(config: &AgentConfig) -> (Arc<[PathBuf]>, bool) {
    let state_dirs = std::iter::once(&config.state_dir).chain(&config.older_dirs).cloned();
    (state_dirs.collect(), config.users.as_ref().is_some_and(UserRule::changes_ids))
}

fn run(runner: Runner) -> Result<JoinHandle<()>, StartError> {
    let thread = std::thread::Builder::new().name("agent".into());
    thread.spawn(move || runner.run()).map_err(system("start a thread"))
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

fn say_hello(config: &AgentConfig, incarnation: &Incarnation, server: &dyn ServerLink) {
    server.send(&ToServer::Hello(Hello {
        version: protocol_version(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        node: config.node.clone(),
        incarnation: incarnation.clone(),
    }));
}

/// The version of this agent, or the one that a test asks for.
fn protocol_version() -> u32 {
    let point = "agent-protocol-version";
    // Without failpoints nothing else names it.
    let _ = point;
    fail::fail_point!(point, |version: Option<String>| {
        version.and_then(|it| it.parse().ok()).unwrap_or(gpool_protocol::VERSION)
    });
    gpool_protocol::VERSION
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
        let _ = self.inputs.send(input::ThreadInput::Stop);
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
    let mut site = Site::open(&format!("gpool-{:016x}", gpool_shepherd::record::checksum(name)));
    // `Site::open` made it to see whether it works; it is not needed.
    if config.pids_max.is_none()
        && let Some(unused) = site.pids_v1.take()
    {
        // Fails if jobs of an earlier agent are in it.
        let _ = std::fs::remove_dir(unused);
    }
    site
}
