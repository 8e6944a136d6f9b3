//! `gpool up`: starts the server of this machine, in the background by default.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use gpool_cli::args::values;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::safe::safe;
use gpool_cli::resolve::every_job;
use gpool_cli::session::{Session, own_socket, state_dir};
use gpool_client::{Client, JobsQuery};
use gpool_device::{NodeArg, NodesArg};
use gpool_model::device::DeviceState;
use gpool_model::{Code, DeviceStrategy, Millis};
use gpool_server::{
    ENVIRONMENT_KEPT_USUALLY, Limits, NODE_LEASE_USUALLY, NotifySettings, ProviderConfig,
    ServerConfig, Telemetry, Traces, WebAddress,
};
use gpool_wire::metrics::MetricNames;
use gpool_wire::{Gpu, Job, catalogue};
use rustix::process::{Resource, getrlimit};

use super::service::{self, InstallFlags, ServiceFlags};
use super::up_network::NetworkFlags;
use super::version::VERSION;
use super::{up_folders, up_nodes};
use crate::config::Config;
use crate::log::{self, LogFormat};
use crate::serve::NodeSettings;
use crate::systemd::Daemon;
use gpool_verbs::render::recovery::in_short;
use gpool_verbs::render::up::{Started, text};

/// The line that a server in the background writes to its parent once it answers.
const READY: &str = "ready\n";

/// Time limit for an answer of a server that may already run. The lock on the state folder reveals
/// a server that hangs.
const ANSWER: Duration = Duration::from_secs(5);

/// Fewest open files for a working server.
const FILES_MIN: u64 = 64;

/// Lines shown from a failed server's log.
const LOG_LINES: usize = 12;

#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "gpool.toml can hold the same settings: gpool help settings.")]
pub struct UpArgs {
    /// Run in the foreground
    #[arg(long)]
    foreground: bool,
    /// Devices (default: nvml), e.g. none, sim:8xH100-80G, 3x(sim:8xH100-80G) for three nodes, or a
    /// .toml file
    #[arg(long, value_name = "DEVICES")]
    devices: Option<String>,
    /// GPUs that new jobs may use (default: all), e.g. 0-3 or 0,2
    #[arg(long, value_name = "GPUS")]
    gpus: Option<String>,
    /// Choice of GPUs on a node: sequential, random, pack or spread
    #[arg(long, value_name = "HOW")]
    strategy: Option<String>,
    /// Processes that do not count as use of a GPU, by name or ID, e.g. Xorg,4242
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = values::filled)]
    ignore_processes: Vec<String>,
    /// State folder of the server
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
    /// Socket of the server
    #[arg(long, value_name = "SOCKET")]
    socket: Option<String>,
    /// Name of this node (default: the host name); a prefix if there are several nodes
    #[arg(long, value_name = "NAME", value_parser = values::filled)]
    name: Option<String>,
    /// Format of the log (default: text)
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    service: ServiceFlags,
    #[command(flatten)]
    install: InstallFlags,
    /// Tell the parent by standard output when the server answers
    #[arg(long, hide = true, requires = "foreground")]
    tell_parent: bool,
    /// Set only in gpool.toml.
    #[arg(skip)]
    limits: Limits,
    /// Set only in gpool.toml.
    #[arg(skip)]
    notify: NotifySettings,
    /// Set only in gpool.toml.
    #[arg(skip)]
    provider: Option<ProviderConfig>,
    #[arg(skip)]
    audit_syslog: bool,
    /// Set only in gpool.toml.
    #[arg(skip)]
    journal_entries: Option<u64>,
    /// Set only in gpool.toml.
    #[arg(skip)]
    telemetry: Telemetry,
    /// Set only in gpool.toml.
    #[arg(skip)]
    web: WebAddress,
    /// Set only in gpool.toml.
    #[arg(skip)]
    keep_output: Option<Millis>,
    /// Set only in gpool.toml.
    #[arg(skip)]
    keep_environment: Option<Millis>,
    /// Set only in gpool.toml.
    #[arg(skip)]
    node_lease: Option<Millis>,
    /// Set only in gpool.toml, except the ignored processes.
    #[arg(skip)]
    node: NodeSettings,
    /// Whether a flag set the name.
    #[arg(skip)]
    has_name: bool,
}

impl UpArgs {
    /// Fills values without a flag from the settings.
    fn or(mut self, config: Config) -> Result<Self> {
        self.notify = config.notify()?;
        self.provider = config.provider()?;
        self.audit_syslog = config.audit_syslog;
        self.network = self.network.or(&config);
        self.ignore_processes.extend(config.ignore_processes.iter().cloned());
        self.node = NodeSettings::of(&config, &self.ignore_processes);
        self.has_name = self.name.is_some();
        self.name = self.name.or(config.name);
        self.devices = self.devices.or(config.devices);
        self.gpus = self.gpus.or(config.gpus);
        self.strategy = self.strategy.or(config.strategy);
        let usual = Limits::default();
        self.journal_entries = config.journal_entries;
        self.web = config.web;
        self.log_format = self.log_format.or(config.log_format);
        self.telemetry = Telemetry {
            detail: config.metrics,
            dcgm: config.metrics_names == MetricNames::Dcgm,
            traces: config.traces.map(Traces::to),
        };
        self.keep_output = config.keep_output;
        self.keep_environment = config.keep_environment;
        self.node_lease = config.node_lease;
        self.limits = Limits {
            connections: config.user_connections_max.map_or(usual.connections, u32::from),
            requests: config.user_requests_per_second.map_or(usual.requests, u32::from),
            changes: config.user_changes_per_hour.unwrap_or(usual.changes),
            jobs: config.user_jobs_max.unwrap_or(usual.jobs),
            stored: config.user_environment_max.unwrap_or(usual.stored),
            upload: config.upload_max.unwrap_or(usual.upload),
            files: config.user_files_max.unwrap_or(usual.files),
            dependencies: config.user_dependencies_max.unwrap_or(usual.dependencies),
            job_dependencies: config.job_dependencies_max.unwrap_or(usual.job_dependencies),
        };
        Ok(self)
    }
}

/// Runs the verb.
///
/// # Errors
/// A server already runs, or the new one does not start.
pub fn run(args: &UpArgs, session: &Session) -> Result {
    if args.service.systemd {
        return service::install(Daemon::Server, args.service, args.install, session);
    }
    let args = &args.clone().or(Config::find()?)?;
    // Checked first, so that a mistake is reported before anything starts.
    let nodes =
        up_nodes::requested_nodes(args.devices.as_deref(), args.name.as_deref(), args.has_name)?;
    up_nodes::refuse_gpus_of_several(&nodes, args.gpus.as_deref())?;
    let socket = own_socket(args.socket.as_deref().or(session.global.server.as_deref()))?;
    let config = ServerConfig {
        state_dir: state_dir(args.state_dir.as_deref())?,
        socket,
        nodes: nodes.nodes.iter().map(|node| node.name.clone()).collect(),
        pools: (nodes.nodes.iter())
            .filter_map(|node| Some((node.name.clone(), node.pool.clone()?)))
            .collect(),
        labels: (nodes.nodes.iter())
            .filter(|node| !node.labels.is_empty())
            .map(|node| (node.name.clone(), node.labels.clone()))
            .collect(),
        allowed: args.gpus.as_deref().map(values::devices).transpose()?,
        strategy: args.strategy.as_deref().map(strategy).transpose()?,
        web: args.web,
        network: args.network.config()?,
        provider: args.provider.clone(),
        audit_syslog: args.audit_syslog,
        limits: args.limits,
        telemetry: args.telemetry.clone(),
        notify: args.notify.clone(),
        journal_entries: args.journal_entries,
        keep_output: args.keep_output,
        keep_environment: args.keep_environment.unwrap_or(ENVIRONMENT_KEPT_USUALLY),
        node_lease: args.node_lease.unwrap_or(NODE_LEASE_USUALLY),
        find_account: crate::serve::find_account,
        find_user: crate::serve::find_user,
    };
    gpool_client::socket::check_length(&gpool_client::socket::liveness(&config.socket))?;
    refuse_few_files()?;
    if !args.tell_parent {
        refuse_a_second(&config.socket)?;
    }
    up_folders::make(&config.state_dir, &config.socket)?;
    if args.foreground {
        log::start(args.log_format.unwrap_or(LogFormat::Text))?;
        return serve(&config, &nodes.nodes, &args.node, args.tell_parent);
    }
    let log = config.state_dir.join("server.log");
    start(args, &nodes, &config, &log)?;
    if session.screen.quiet { Ok(Exit::OK) } else { say(&config, session) }
}

/// Reads the name of a device strategy.
///
/// # Errors
/// There is no such strategy; the failure names the nearest.
pub fn strategy(text: &str) -> Result<DeviceStrategy> {
    let known = DeviceStrategy::ALL;
    if let Some((_, strategy)) = known.iter().find(|(word, _)| *word == text) {
        return Ok(*strategy);
    }
    let words = known.map(|(word, _)| word);
    let what = format!("--strategy: there is no strategy {text:?}");
    let failure =
        Failure::new(catalogue::INVALID, what).why(format!("the choices are {}", words.join(", ")));
    Err(match gpool_wire::json::nearest(text, words) {
        Some(near) => failure.tip(format!("--strategy {near}")),
        None => failure.tip("--strategy sequential"),
    })
}

fn refuse_a_second(socket: &Path) -> Result<()> {
    // No retries: just after a server was killed, a child that it was starting may still hold the
    // socket and will never answer.
    let once = Client::at(socket).with_retries(Duration::ZERO).with_timeout(Some(ANSWER));
    let Ok(running) = once.version() else { return Ok(()) };
    let what = format!("a server is already running (pid {})", running.pid);
    Err(Failure::new(errors::RUNS_ALREADY, what)
        .why(format!("it answers on {}", socket.display()))
        .tip("gpool status")
        .tip("gpool down   (its jobs keep running)"))
}

/// With fewer open files the server would start but answer no request.
fn refuse_few_files() -> Result<()> {
    let most = getrlimit(Resource::Nofile).maximum;
    let Some(most) = most.filter(|most| *most < FILES_MIN) else { return Ok(()) };
    let what = format!("a server needs at least {FILES_MIN} open files, and {most} are allowed");
    Err(Failure::new(errors::NOT_STARTED, what)
        .why("the hard limit of this process on open files is lower (ulimit -Hn)")
        .tip("ulimit -n 4096; gpool up   (in a shell with a higher limit)")
        .tip("LimitNOFILE=65536   (in the unit, if systemd starts it)"))
}

/// Runs the server in this process until it is stopped.
fn serve(
    config: &ServerConfig,
    nodes: &[NodeArg],
    settings: &NodeSettings,
    tell_parent: bool,
) -> Result {
    let parent = tell_parent.then(leave_parent).transpose().map_err(|error| {
        Failure::new(errors::INTERNAL, format!("can't go into the background: {error}"))
    })?;
    let ready = |_: &gpool_server::ServerInfo| {
        crate::systemd::ready(&config.socket);
        if let Some(mut parent) = parent {
            // A failed write means that the parent did not wait.
            let _ = parent.write_all(READY.as_bytes());
        }
    };
    let served = crate::serve::serve(config, nodes, settings, ready);
    crate::systemd::stopping();
    match served {
        Ok(()) => Ok(Exit::OK),
        Err(error) => Err(refused(&error.chain().map(ToString::to_string).collect::<Vec<_>>())),
    }
}

/// Why the server did not start, outermost cause first. A cause may end with an error code, which
/// sets the exit code.
pub fn refused(causes: &[String]) -> Failure {
    let with_code = |text: &'_ str| -> Option<(String, Code)> {
        let (what, code) = text.strip_suffix(')')?.rsplit_once(" (GP")?;
        Some((what.to_owned(), errors::find(code)?.code))
    };
    let coded = causes.iter().find_map(|cause| with_code(cause));
    let code = coded.map_or(errors::NOT_STARTED, |(_, code)| code);
    let mut texts =
        causes.iter().map(|cause| with_code(cause).map_or_else(|| cause.clone(), |(what, _)| what));
    let failure = Failure::new(code, texts.next().unwrap_or_default());
    let failure = texts.fold(failure, Failure::why);
    match code {
        catalogue::NO_SUCH_DEVICE => failure.tip("gpool up --gpus all"),
        _ => failure,
    }
}

/// Starts a new session, so that no terminal ends the server, and keeps standard output only to
/// tell the parent.
fn leave_parent() -> std::io::Result<File> {
    rustix::process::setsid()?;
    let parent: OwnedFd = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(File::from(parent))
}

/// Starts the server in the background and waits until it answers.
fn start(args: &UpArgs, nodes: &NodesArg, config: &ServerConfig, log: &Path) -> Result<()> {
    let failed = |what: &str, error: &std::io::Error| {
        Failure::new(errors::NOT_STARTED, format!("can't {what}: {error}"))
    };
    let mut writer = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(log)
        .map_err(|error| failed(&format!("write {}", log.display()), &error))?;
    let before = writer.seek(SeekFrom::End(0)).map_err(|error| failed("read the log", &error))?;
    let program = std::env::current_exe().map_err(|error| failed("find this program", &error))?;
    let mut command = Command::new(program);
    command.args(["up", "--foreground", "--tell-parent"]);
    command.arg("--state-dir").arg(&config.state_dir).arg("--socket").arg(&config.socket);
    if let (false, Some(name)) = (nodes.are_named, &args.name) {
        command.arg("--name").arg(name);
    }
    for (flag, value) in
        [("--devices", &args.devices), ("--gpus", &args.gpus), ("--strategy", &args.strategy)]
    {
        if let Some(value) = value {
            command.arg(format!("{flag}={value}"));
        }
    }
    args.network.pass(&mut command);
    if let Some(format) = args.log_format {
        command.args(["--log-format", format.as_str()]);
    }
    if !args.ignore_processes.is_empty() {
        command.arg(format!("--ignore-processes={}", args.ignore_processes.join(",")));
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(writer)
        .spawn()
        .map_err(|error| failed("start the server", &error))?;
    let mut said = String::new();
    if let Some(mut from_child) = child.stdout.take() {
        from_child.read_to_string(&mut said).map_err(|error| failed("hear the server", &error))?;
    }
    if said == READY {
        return Ok(());
    }
    let ended = child.wait().map_err(|error| failed("wait for the server", &error))?;
    Err(not_started(&ended.to_string(), log, before))
}

/// The failure of a server that ended, with the end of its log.
fn not_started(ended: &str, log: &Path, before: u64) -> Failure {
    let mut text = String::new();
    if let Ok(mut file) = File::open(log)
        && file.seek(SeekFrom::Start(before)).is_ok()
    {
        // Text that is not UTF-8 is left out; the user can read the log.
        let _ = file.read_to_string(&mut text);
    }
    let mut failure = from_log(ended, &text);
    let write = || OpenOptions::new().append(true).open(log)?.write_all(b"\n");
    // The disk may be full.
    if text.is_empty()
        && let Err(error) = write()
    {
        failure = failure.why(format!("its log can't be written: {error}"));
    }
    failure.tip(format!("the whole log: {}", log.display()))
}

/// The error at the end of a log, or else its last lines.
pub fn from_log(ended: &str, text: &str) -> Failure {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = |from: usize| &lines[from.max(lines.len().saturating_sub(LOG_LINES))..];
    let Some(own) = lines.iter().position(|line| line.starts_with("error: ")) else {
        let what = format!("the server did not start ({ended})");
        let failure = Failure::new(errors::NOT_STARTED, what);
        return last(0).iter().fold(failure, |failure, line| failure.why(line.trim()));
    };
    let (mut whys, mut tries, mut is_try) = (Vec::new(), Vec::new(), false);
    let mut code = errors::NOT_STARTED;
    for line in last(own + 1) {
        let line = line.trim();
        if let Some(entry) = line.split_once(" · ").and_then(|(code, _)| errors::find(code)) {
            code = entry.code;
            continue;
        }
        let (label, said) = line.split_once("  ").unwrap_or(("", line));
        is_try = label == "try" || is_try && label != "why";
        let said = if matches!(label, "why" | "try") { said.trim() } else { line };
        if is_try { tries.push(said) } else { whys.push(said) }
    }
    let failure = Failure::new(code, lines[own].trim_start_matches("error: "));
    let failure = whys.into_iter().fold(failure, Failure::why);
    tries.into_iter().fold(failure, Failure::tip)
}

/// Prints the new server with its nodes.
fn say(config: &ServerConfig, session: &Session) -> Result {
    let client = Client::at(&config.socket);
    let (status, mut gpus) = (client.status()?, client.gpus()?.items);
    gpus.retain(|gpu| is_here(config, &gpu.node));
    let mut nodes = client.nodes()?.items;
    nodes.retain(|node| is_here(config, &node.name));
    let started = Started {
        version: VERSION,
        nodes: &nodes,
        gpus: &gpus,
        status: &status,
        recovery: in_short(&client.recovery()?, &session.view()),
        is_root: rustix::process::geteuid().is_root(),
    };
    session.screen.data(&text(&started))?;
    for fault in [&status.web_fault, &status.network_fault].into_iter().flatten() {
        session.screen.warn(&safe(fault));
        session.screen.note("         The server works without it, and tries again every second.");
    }
    warn_of_lost_devices(&client, &gpus, config, session)?;
    for gpu in &gpus {
        if let Some(process) = gpu.unmanaged.first() {
            let name = process.name.as_deref().unwrap_or("a process");
            let user = process.user.as_deref().map(|user| format!(" (user {user})"));
            let who = format!("pid {} {name}{}", process.pid, user.unwrap_or_default());
            let which = match nodes.len() {
                1 => gpu.index.to_string(),
                _ => format!("{}:{}", gpu.node, gpu.index),
            };
            let what = format!("GPU {which} is in use outside gpool: {who}");
            session.screen.warn(&safe(&what));
            session
                .screen
                .note(&format!("         No job gets it until it is free. gpool gpus {which}"));
        }
    }
    Ok(Exit::OK)
}

fn is_here(config: &ServerConfig, node: &str) -> bool {
    config.nodes.iter().any(|name| name.as_str() == node)
}

/// Warns of jobs that run on devices that the last server had and this one does not.
fn warn_of_lost_devices(
    client: &Client,
    gpus: &[Gpu],
    config: &ServerConfig,
    session: &Session,
) -> Result<()> {
    let there = gpus.iter().filter(|gpu| gpu.state != DeviceState::Lost);
    let there: BTreeSet<&str> = there.map(|gpu| gpu.uuid.as_str()).collect();
    let active = Some("starting,running,paused,stopping".to_owned());
    let jobs = every_job(client, &JobsQuery { state: active, ..JobsQuery::default() })?;
    let lacks = |job: &&Job| {
        let here = job.placement.iter().filter(|placed| is_here(config, &placed.node));
        here.flat_map(|placed| &placed.uuids).any(|uuid| !there.contains(uuid.as_str()))
    };
    let ids: Vec<&str> = jobs.iter().filter(lacks).map(|job| job.id.as_str()).collect();
    if let Some((last, rest)) = ids.split_last() {
        let jobs = if rest.is_empty() { "job" } else { "jobs" };
        let comma = if rest.is_empty() { "" } else { ", " };
        let what = format!("GPUs of {jobs} {}{comma}{last} do not exist any more", rest.join(", "));
        session.screen.warn(&what);
    }
    Ok(())
}
