//! Runs the server of this machine and the agents of its nodes, usually one, in one process. They
//! use the same protocol as between machines.

use std::fs::DirBuilder;
use std::net::UdpSocket;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use gpool_agent::{Agent, AgentConfig, UserRule};
use gpool_client::Client;
use gpool_device::{Follows, Ignore, LOAD_VARIABLE, NodeArg, Opened};
use gpool_link::{ServerLink, remote};
use gpool_model::{Bytes, Millis, NodeName, Timestamp};
use gpool_server::account::UserAccount;
use gpool_server::{NetworkConfig, ServerConfig, ServerInfo, StopAgent};
use gpool_shepherd::{layout, survey};
use gpool_sys::clock::unix_ms;
use gpool_wire::Problem;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::agent::{Enrollment, ServerDial, api};
use crate::config::{Config, OutputFull, UsersSetting};
use crate::verbs::up_nodes;

/// The file in a node's folder that controls simulated devices.
pub const CONTROL_FILE: &str = "devices.toml";

/// Settings of this machine's agents; an unset value means the agent's default.
#[derive(Debug, Clone, Default)]
pub struct NodeSettings {
    /// Processes that do not count as use of a GPU.
    pub ignore: Ignore,
    /// Most processes and threads of one job.
    pub job_processes_max: Option<u32>,
    /// Size at which each output file of a job is cut.
    pub job_output_max: Option<Bytes>,
    /// Whether a job is stopped when its output is dropped.
    pub stop_on_cut: Option<bool>,
    /// Most tasks that run at the same time.
    pub tasks_max: Option<u32>,
    /// Slots of these that are reserved for jobs with GPUs.
    pub reserved_gpu_tasks: Option<u32>,
    /// Most slots of these for one user.
    pub user_tasks_max: Option<u32>,
    /// Whether the kernel keeps jobs from opening other GPUs.
    pub isolate_gpus: Option<bool>,
    /// The program that runs containers, or `none`.
    pub container_engine: Option<String>,
    /// The longest time until borrowed memory of a GPU is back.
    pub loan_deadline: Option<Millis>,
    /// A folder for files that name the jobs of each GPU; a node of several has its own in it.
    pub job_files: Option<PathBuf>,
    /// The name or IP address of this machine for other machines.
    pub address: Option<String>,
    /// Most bytes of the results of a task.
    pub results_max: Option<Bytes>,
    /// Most bytes of files for the next working folders.
    pub file_cache_max: Option<Bytes>,
    /// Which accounts run the jobs of a server on another machine.
    pub users: UserRule,
}

impl NodeSettings {
    /// Those of the settings file, and the names of ignored processes.
    #[must_use]
    pub fn of(config: &Config, ignored: &[String]) -> Self {
        Self {
            ignore: up_nodes::ignored(ignored),
            job_processes_max: config.job_processes_max.map(u32::from),
            job_output_max: config.job_output_max,
            stop_on_cut: config.job_output_full.map(|it| it == OutputFull::Stop),
            tasks_max: config.node_tasks_max.map(u32::from),
            reserved_gpu_tasks: config.node_gpu_tasks_kept,
            user_tasks_max: config.node_user_tasks_max.map(u32::from),
            isolate_gpus: config.isolate_gpus,
            container_engine: config.container_engine.clone(),
            loan_deadline: config.loan_deadline,
            job_files: config.hpc_job_mapping_dir.clone(),
            address: config.address.clone(),
            results_max: config.results_max,
            file_cache_max: config.file_cache_max,
            users: config.users.as_ref().map(UsersSetting::rule).unwrap_or_default(),
        }
    }

    /// The configuration of the agent of a node, one of several of this process.
    fn agent(&self, folder: &Path, node: &NodeArg, n_nodes: usize) -> anyhow::Result<AgentConfig> {
        let mut agent =
            AgentConfig::new(folder, node.name.clone()).context("can't find this program")?;
        agent.ignore = self.ignore.clone();
        agent.address = self.address.clone().unwrap_or_default();
        agent.pids_max = self.job_processes_max;
        agent.output_limit = self.job_output_max.unwrap_or(agent.output_limit);
        agent.results_max = self.results_max.unwrap_or(agent.results_max);
        agent.file_cache_max = self.file_cache_max.unwrap_or(agent.file_cache_max);
        agent.stop_on_cut = self.stop_on_cut.unwrap_or(agent.stop_on_cut);
        agent.tasks_max = self.tasks_max.unwrap_or(agent.tasks_max);
        agent.container_engine = self.container_engine.clone();
        agent.isolate_gpus = self.isolate_gpus.unwrap_or(agent.isolate_gpus);
        agent.loan_deadline = self.loan_deadline.unwrap_or(agent.loan_deadline);
        // All nodes of this process share the memory.
        let n_parts = u64::try_from(n_nodes.max(1)).unwrap_or(u64::MAX);
        agent.recent = Bytes::new(AgentConfig::RECENT.get() / n_parts);
        agent.reserved_gpu_tasks = self.reserved_gpu_tasks;
        agent.job_files = self.job_files.as_ref().map(|folder| match n_nodes {
            1 => folder.clone(),
            _ => folder.join(node.name.as_str()),
        });
        // Without root there is only one user.
        let is_shared = rustix::process::geteuid().is_root();
        let all = Some(agent.tasks_max).filter(|_| !is_shared);
        agent.user_tasks_max = self.user_tasks_max.or(all);
        (agent.cpus, agent.memory) = (node.cpus, node.memory);
        Ok(agent)
    }
}

/// The folder of a node's files: the state folder itself for an only node, unless the node already
/// has its own folder.
#[must_use]
pub fn node_folder(state_dir: &Path, node: &NodeName, is_only: bool) -> PathBuf {
    match node.folder().map(|folder| state_dir.join(folder)) {
        Some(own) if !is_only || own.is_dir() => own,
        _ => state_dir.to_owned(),
    }
}

/// Runs the server and all agents until the server is stopped; running jobs go on. `nodes` are in
/// the order of the configuration.
pub fn serve(
    config: &ServerConfig,
    nodes: &[NodeArg],
    settings: &NodeSettings,
    ready: impl FnOnce(&ServerInfo),
) -> anyhow::Result<()> {
    gpool_sys::memory::give_back_at_once();
    open_as_many_files_as_allowed();
    let start = |name: &NodeName, ports| {
        let node = nodes.iter().find(|node| node.name == *name).context("a node has no devices")?;
        let folder = node_folder(&config.state_dir, name, nodes.len() == 1);
        make_node_folder(&config.state_dir, &folder)?;
        let mut agent = settings.agent(&folder, node, nodes.len())?;
        if agent.address.is_empty() {
            agent.address = config.network.as_ref().map(own_address).unwrap_or_default();
        }
        if nodes.first().is_some_and(|first| first.name == *name) {
            agent.older_dirs = older_folders(&config.state_dir, nodes);
        }
        agent.trace_context =
            config.telemetry.traces.is_some().then_some(gpool_server::trace_context);
        let socket = std::path::absolute(&config.socket)?;
        agent.api_socket = socket.to_str().map(str::to_owned);
        start_agent(agent, open_devices(node, &folder), &ports)
            .with_context(|| format!("node {name} can't start"))
    };
    gpool_server::run(config, start, gpool_listen::serve, ready)
}

fn open_devices(node: &NodeArg, folder: &Path) -> Opened {
    let load = std::env::var(LOAD_VARIABLE).ok();
    let follows = Follows::of_server(load.as_deref());
    node.devices.open_following(&node.name, &folder.join(CONTROL_FILE), follows)
}

/// The address of the nodes of a server's own machine.
fn own_address(network: &NetworkConfig) -> String {
    match network.listen.ip() {
        ip if ip.is_unspecified() => {
            rustix::system::uname().nodename().to_string_lossy().into_owned()
        }
        ip => ip.to_string(),
    }
}

/// The address of this machine on the way to a server; nothing is sent.
fn address_towards(server: &str) -> Option<String> {
    let server = gpool_client::Address::read(server).ok()?;
    let socket = UdpSocket::bind("0.0.0.0:0").or_else(|_| UdpSocket::bind("[::]:0")).ok()?;
    let (host, port) = (server.host(), server.port());
    socket.connect((host, port)).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// How an agent of a server on another machine ended.
pub enum AgentEnd {
    /// By a signal. Its jobs go on.
    Stopped,
    /// The server does not know this machine any more.
    Refused(Problem),
}

/// Runs the agent of a server on another machine, until a signal comes or the server refuses it.
///
/// # Errors
/// It can't be started.
pub fn serve_agent(
    enrollment: Enrollment,
    folder: &Path,
    node: &NodeArg,
    settings: &NodeSettings,
) -> anyhow::Result<AgentEnd> {
    gpool_sys::memory::give_back_at_once();
    open_as_many_files_as_allowed();
    let (ends, ended) = channel();
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("can't wait for signals")?;
    let (refusals, refused) = channel();
    let client = enrollment.client(Timestamp::new(unix_ms()))?;
    let client = Arc::new(Mutex::new(client));
    let dial = ServerDial { client: Arc::clone(&client), refusals: Mutex::new(refusals) };
    let link = remote::link(Box::new(dial));
    let mut config = settings.agent(folder, node, 1)?;
    if config.address.is_empty() {
        config.address = address_towards(&enrollment.server).unwrap_or_default();
    }
    config.users = Some(settings.users.clone());
    let socket = api::socket(folder);
    config.api_socket = socket.to_str().map(str::to_owned);
    let agent = Agent::start(config, open_devices(node, folder), &link)?;
    api::listen(&socket, client.clone(), settings.users.clone())
        .context("can't listen for the jobs of the node")?;
    let of_signal = ends.clone();
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .context("can't start a thread")
    };
    // The receiver waits for the first end, and is gone after it.
    let on_signal =
        move || drop(signals.forever().next().map(|_| of_signal.send(AgentEnd::Stopped)));
    let on_refusal = move || drop(refused.recv().map(|it| ends.send(AgentEnd::Refused(it))));
    let state_dir = folder.to_owned();
    spawn("signals", Box::new(on_signal))?;
    spawn("refusals", Box::new(on_refusal))?;
    spawn("renewal", Box::new(move || keep_certificate(enrollment, &client, &state_dir)))?;
    crate::systemd::agent_ready();
    let end = ended.recv().unwrap_or(AgentEnd::Stopped);
    agent.stop();
    Ok(end)
}

/// Renews the certificate of an agent in time, for as long as the process runs.
fn keep_certificate(mut enrollment: Enrollment, client: &Mutex<Client>, state_dir: &Path) {
    /// How often the end of the certificate is looked at.
    const LOOK: Duration = Duration::from_secs(3600);

    loop {
        let now = Timestamp::new(unix_ms());
        if now >= enrollment.renew_at {
            let renewed = enrollment.renew(state_dir, now);
            match renewed.and_then(|it| it.client(now).map(|client| (it, client))) {
                Ok((renewed, with_it)) => {
                    *client.lock().unwrap_or_else(PoisonError::into_inner) = with_it;
                    enrollment = renewed;
                    tracing::info!("the certificate is renewed");
                }
                Err(error) => tracing::warn!(%error, "can't renew the certificate; trying again"),
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Makes the folder of one of several nodes. Refuses while the state folder itself still has jobs
/// of an earlier only node: their agent would not find them and report them as lost.
fn make_node_folder(state_dir: &Path, folder: &Path) -> anyhow::Result<()> {
    if folder == state_dir {
        return Ok(());
    }
    let left = survey::claimed(state_dir).unwrap_or_default();
    let jobs: Vec<String> = left.iter().map(|left| left.task.job.to_string()).collect();
    if let Some((first, rest)) = jobs.split_first() {
        let what = match rest.len() {
            0 => format!("job {first} was started when there was one node here"),
            n => format!("job {first} and {n} more were started when there was one node here"),
        };
        let why = "start the server with that node, let the jobs end, then start it with several";
        return Err(anyhow::Error::msg(why).context(what));
    }
    // Jobs of other users can open their own files in it but not list it.
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(folder)
        .with_context(|| format!("can't create the folder {}", folder.display()))
}

/// Raises the limit of open files from the usual low value. Jobs get the limits of their submitter.
fn open_as_many_files_as_allowed() {
    let most = getrlimit(Resource::Nofile).maximum;
    // Every process may do this up to the hard limit; if it fails, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}

/// The folders of agents in a state folder that no node of this server has.
fn older_folders(state_dir: &Path, nodes: &[NodeArg]) -> Vec<PathBuf> {
    let is_alone = nodes.len() == 1;
    let used: Vec<PathBuf> =
        nodes.iter().map(|node| node_folder(state_dir, &node.name, is_alone)).collect();
    layout::folders(state_dir).into_iter().filter(|folder| !used.contains(folder)).collect()
}

fn start_agent(
    config: AgentConfig,
    devices: Opened,
    server: &Arc<dyn ServerLink>,
) -> anyhow::Result<StopAgent> {
    let agent = Agent::start(config, devices, server)?;
    Ok(Box::new(move || agent.stop()))
}

/// Finds a user by name or number in the system's database. A number without an entry is also
/// valid: jobs may run under it.
#[must_use]
pub fn find_user(name: &str) -> Option<(u32, String)> {
    if let Some(account) = gpool_sys::user::account_named(name) {
        return Some((account.uid, name.to_owned()));
    }
    let uid: u32 = name.parse().ok()?;
    let known = find_account(uid).map(|account| account.name);
    Some((uid, known.unwrap_or_else(|| uid.to_string())))
}

/// The user IDs of people begin here, unless `/etc/login.defs` says otherwise.
const PEOPLE_FROM: u32 = 1000;
/// Programs that are the shell of accounts without a login.
const NO_SHELLS: [&str; 3] = ["nologin", "false", "sync"];

/// Whether an account is a person's: its ID is no system user's, and it has a login shell.
///
/// Source: `login.defs(5)`, `UID_MIN`; the ID 65534 is `nobody`.
fn is_person(account: &gpool_sys::user::PasswdEntry) -> bool {
    static FROM: LazyLock<u32> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/etc/login.defs").unwrap_or_default();
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let from = lines.find_map(|words| match words[..] {
            ["UID_MIN", number, ..] => number.parse().ok(),
            _ => None,
        });
        from.unwrap_or(PEOPLE_FROM)
    });
    let shell = String::from_utf8_lossy(&account.shell);
    let program = shell.rsplit('/').next().unwrap_or_default();
    let can_log_in = !program.is_empty() && !NO_SHELLS.contains(&program);
    can_log_in && account.uid >= *FROM && account.uid != 65_534
}

/// Finds the account of a user in the system's database.
#[must_use]
pub fn find_account(uid: u32) -> Option<UserAccount> {
    let found = gpool_sys::user::account(uid)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let groups = gpool_sys::user::groups(&found).into_iter().map(text).collect();
    let gid = found.gid;
    let is_person = is_person(&found);
    Some(UserAccount { name: text(found.name), gid, home: text(found.home), groups, is_person })
}
