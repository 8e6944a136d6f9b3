//! `gpool agent`: runs the agent of this machine for a server on another one.

use std::path::{Path, PathBuf};

use clap::Args;
use gpool_cli::args::values;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::{Session, state_dir};
use gpool_client::{Address, Error};
use gpool_model::Timestamp;
use gpool_sys::clock::unix_ms;
use gpool_wire::catalogue;

use super::service::{self, InstallFlags, ServiceFlags};
use super::{up_folders, up_nodes};
use crate::agent::{ENROLLMENT_FILE, Enrollment, NotJoined};
use crate::config::Config;
use crate::log::{self, LogFormat};
use crate::serve::{AgentEnd, NodeSettings, serve_agent};
use crate::systemd::Daemon;

#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "gpool.toml can hold the same settings: gpool help settings.")]
pub struct AgentArgs {
    /// Join the cluster of a server first: its address, and a token of gpool nodes add
    #[arg(long, num_args = 2, value_names = ["URL", "TOKEN"])]
    join: Vec<String>,
    /// Devices (default: nvml), e.g. none or sim:8xH100-80G
    #[arg(long, value_name = "DEVICES")]
    devices: Option<String>,
    /// Processes that do not count as use of a GPU, by name or ID, e.g. Xorg,4242
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = values::filled)]
    ignore_processes: Vec<String>,
    /// State folder of the agent
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
    /// Format of the log (default: text)
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    service: ServiceFlags,
    #[command(flatten)]
    install: InstallFlags,
}

impl AgentArgs {
    /// The flags for the unit, which starts an agent that has joined.
    fn words(&self) -> Vec<String> {
        // The service starts in another folder.
        let whole = |text: &String| match text.ends_with(".toml").then(|| std::path::absolute(text))
        {
            Some(Ok(path)) => path.display().to_string(),
            _ => text.clone(),
        };
        let folder = |text: &String| {
            std::path::absolute(text).map_or_else(|_| text.clone(), |it| it.display().to_string())
        };
        let text = |flag: &str, value: &Option<String>| {
            value.clone().map(|value| [flag.to_owned(), value])
        };
        let ignored = self.ignore_processes.join(",");
        let format = self.log_format.map(|format| format.as_str().to_owned());
        let flags = [
            text("--devices", &self.devices.as_ref().map(whole)),
            text("--ignore-processes", &Some(ignored).filter(|it| !it.is_empty())),
            text("--state-dir", &self.state_dir.as_ref().map(folder)),
            text("--log-format", &format),
        ];
        flags.into_iter().flatten().flatten().collect()
    }
}

/// Runs the verb.
///
/// # Errors
/// The machine can't join, the agent does not start, or the server refuses it later.
pub fn run(args: &AgentArgs, session: &Session) -> Result {
    let words = args.words();
    let install = || service::install(Daemon::Agent(&words), args.service, args.install, session);
    if args.install.print && args.join.is_empty() {
        return install();
    }
    let config = Config::find()?;
    let folder = folder(args)?;
    up_folders::make_state(&folder)?;
    let enrollment = match args.join.as_slice() {
        [server, token] => join(server, token, &folder, session)?,
        _ => enrollment(&folder)?,
    };
    if args.service.systemd {
        return install();
    }
    let devices = args.devices.clone().or_else(|| config.devices.clone());
    let nodes =
        up_nodes::requested_nodes(devices.as_deref(), Some(enrollment.node.as_str()), true)?;
    let [node] = nodes.nodes.as_slice() else {
        let what = "--devices: an agent is one node";
        return Err(Failure::new(catalogue::INVALID, what).tip("--devices sim:8xH100-80G"));
    };
    let mut ignored = args.ignore_processes.clone();
    ignored.extend(config.ignore_processes.iter().cloned());
    let settings = NodeSettings::of(&config, &ignored);
    log::start(args.log_format.or(config.log_format).unwrap_or(LogFormat::Text))?;
    let served = serve_agent(enrollment, &folder, node, &settings);
    crate::systemd::stopping();
    match served {
        Ok(AgentEnd::Stopped) => Ok(Exit::OK),
        Ok(AgentEnd::Refused(problem)) => Err(Failure::from(Error::Problem(problem))),
        Err(error) => {
            Err(super::up::refused(&error.chain().map(ToString::to_string).collect::<Vec<_>>()))
        }
    }
}

/// The agent has a folder of its own: a server may run on the same machine.
fn folder(args: &AgentArgs) -> Result<PathBuf> {
    match &args.state_dir {
        Some(named) => state_dir(Some(named)),
        None => Ok(state_dir(None)?.join("agent")),
    }
}

/// Joins with a token. A machine that is a node of the server already does not use it.
fn join(server: &str, token: &str, folder: &Path, session: &Session) -> Result<Enrollment> {
    let now = Timestamp::new(unix_ms());
    if let Some(present) = Enrollment::read(folder).map_err(not_joined)? {
        refuse_other_server(&present, server, folder)?;
        let check = present.client(now).and_then(|client| Ok(client.agent_check()?));
        match check {
            Ok(()) => {
                let (node, server) = (&present.node, &present.server);
                session.screen.note(&format!("this machine is node {node} of {server} already"));
                return Ok(present);
            }
            // It was removed or was away for too long, so it joins again.
            Err(NotJoined::Expired) => {}
            Err(NotJoined::Refused(Error::Problem(problem))) if problem.status == 401 => {}
            Err(error) => return Err(not_joined(error)),
        }
    }
    let enrollment = Enrollment::join(server, token, folder, now).map_err(not_joined)?;
    let (node, server) = (&enrollment.node, &enrollment.server);
    session.screen.note(&format!("this machine is node {node} of {server}"));
    Ok(enrollment)
}

/// Jobs of the present server may run here, so it is not left by accident.
fn refuse_other_server(present: &Enrollment, server: &str, folder: &Path) -> Result<()> {
    let address = Address::read(server).map_err(|why| not_joined(NotJoined::Address(why)))?;
    if address.to_string() == present.server {
        return Ok(());
    }
    let what = format!("this machine is node {} of {}", present.node, present.server);
    let file = folder.join(ENROLLMENT_FILE);
    Err(Failure::new(errors::NOT_STARTED, what)
        .tip("gpool agent   (runs the agent of that node)")
        .tip(format!("rm {}   (leaves that server; then join)", file.display())))
}

/// The enrollment of an earlier join.
fn enrollment(folder: &Path) -> Result<Enrollment> {
    Enrollment::read(folder).map_err(not_joined)?.ok_or_else(|| {
        Failure::new(errors::NOT_STARTED, "this machine has not joined the cluster of a server")
            .why(format!("{} has no {ENROLLMENT_FILE}", folder.display()))
            .tip("gpool nodes add NAME   (on the server; prints the command to join)")
    })
}

fn not_joined(error: NotJoined) -> Failure {
    let what = error.to_string();
    let add = "gpool nodes add NAME   (on the server; prints a new command)";
    match error {
        NotJoined::Refused(error) => Failure::from(error),
        NotJoined::Address(why) => Failure::new(catalogue::INVALID, format!("--join: {why}")),
        NotJoined::OtherServer { .. } => Failure::new(catalogue::NOT_TRUSTED, what).tip(add),
        NotJoined::Expired => Failure::new(errors::NOT_STARTED, what).tip(add),
        NotJoined::File { .. } => {
            Failure::new(errors::BAD_DIRECTORY, what).tip("remove the file, and join again")
        }
    }
}
