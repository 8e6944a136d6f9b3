//! The server of this machine with the agent of this machine, in one process, over the protocol
//! that they would speak between two.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use gpool_agent::{Agent, AgentConfig, AgentHandle};
use gpool_device::{DevicesArg, Ignore};
use gpool_model::Bytes;
use gpool_server::http::{Account, LineAnswer, TaskLine};
use gpool_server::{AgentLink, AgentPorts, ServerConfig, ServerInfo};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The file beside the state that says what happens to simulated devices.
pub const CONTROL_FILE: &str = "devices.toml";

/// What may be set of the agent of this machine; what is not has the agent's own default.
#[derive(Debug, Clone, Default)]
pub struct NodeSettings {
    /// Processes that do not count as use of a GPU.
    pub ignore: Ignore,
    /// Processes and threads that one job may have at once.
    pub job_processes_max: Option<u32>,
    /// Size at which each file of a job's output is cut.
    pub job_output_max: Option<Bytes>,
    /// Tasks that run at once.
    pub tasks_max: Option<u32>,
}

/// Runs both until the server is told to stop; what runs goes on.
///
/// # Errors
/// They can't start.
pub fn serve(
    config: &ServerConfig,
    devices: &DevicesArg,
    node: NodeSettings,
    ready: impl FnOnce(&ServerInfo),
) -> anyhow::Result<()> {
    gpool_sys::memory::share_arenas();
    open_as_many_files_as_allowed();
    let mut agent = AgentConfig::new(&config.state_dir, config.node.clone())
        .context("can't find this program")?;
    agent.ignore = node.ignore;
    agent.pids_max = node.job_processes_max;
    agent.output_limit = node.job_output_max.unwrap_or(agent.output_limit);
    agent.tasks_max = node.tasks_max.unwrap_or(agent.tasks_max);
    agent.api_socket = config.socket.to_str().map(str::to_owned);
    let control = config.state_dir.join(CONTROL_FILE);
    let start = |ports| start_agent(agent, devices, &control, ports);
    gpool_server::run(config, start, ready)
}

/// Takes the usual limit away, which is that of a program that opens a few files. Those of jobs are
/// their callers'.
fn open_as_many_files_as_allowed() {
    let most = getrlimit(Resource::Nofile).maximum;
    // Everybody may, up to the hard limit; if the kernel minds, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}

fn start_agent(
    config: AgentConfig,
    devices: &DevicesArg,
    control: &Path,
    ports: AgentPorts,
) -> anyhow::Result<AgentLink> {
    let devices = devices.open(&config.node, control)?;
    let agent = Agent::start(config, devices, ports.report, ports.blob)?;
    // Shared by whoever tells it something; gone once it was stopped.
    let agent = Arc::new(Mutex::new(Some(agent)));
    let (told, opens, asked) = (Arc::clone(&agent), Arc::clone(&agent), Arc::clone(&agent));
    Ok(AgentLink {
        order: Box::new(move |order| {
            with(&told, |agent| agent.order(order));
        }),
        open: Box::new(move |task, opening, answer: LineAnswer| {
            let answer: gpool_agent::Answer = Box::new(move |line| {
                answer(line.map(|line| TaskLine { socket: line.socket, early: line.early }));
            });
            with(&opens, |agent| agent.open(task, opening, answer));
        }),
        samples: Box::new(move || with(&asked, AgentHandle::samples).unwrap_or_default()),
        stop: Box::new(move || {
            let agent = agent.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(agent) = agent {
                agent.stop();
            }
        }),
    })
}

fn with<T>(agent: &Mutex<Option<AgentHandle>>, work: impl FnOnce(&AgentHandle) -> T) -> Option<T> {
    agent.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(work)
}

/// Finds a user by name or number where the system keeps users. A number that nobody has is a user
/// too: jobs may run under it.
#[must_use]
pub fn find_user(name: &str) -> Option<(u32, String)> {
    if let Some(account) = gpool_sys::user::account_named(name) {
        return Some((account.uid, name.to_owned()));
    }
    let uid: u32 = name.parse().ok()?;
    let known = find_account(uid).map(|account| account.name);
    Some((uid, known.unwrap_or_else(|| uid.to_string())))
}

/// Looks a user up where the system keeps users.
#[must_use]
pub fn find_account(uid: u32) -> Option<Account> {
    let found = gpool_sys::user::account(uid)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let groups = gpool_sys::user::groups(&found).into_iter().map(text).collect();
    Some(Account { name: text(found.name), home: text(found.home), groups })
}
