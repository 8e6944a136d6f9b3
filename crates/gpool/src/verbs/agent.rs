//! `gpool agent`: runs the agent of this machine for a server on another one.

use std::path::PathBuf;

use clap::Args;
use gpool_cli::args::values;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::{Session, state_dir};
use gpool_model::Timestamp;
use gpool_sys::clock::unix_ms;
use gpool_wire::catalogue;

use super::service::{self, InstallFlags, ServiceFlags};
use super::{up_folders, up_nodes};
use crate::agent::{Membership, NotJoined};
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
    let config = Config::find()?;
    let folder = folder(args)?;
    up_folders::make_state(&folder)?;
    let membership = match args.join.as_slice() {
        [server, token] => join(server, token, &folder, session)?,
        _ => known(&folder)?,
    };
    if args.service.systemd {
        let words = args.words();
        return service::install(Daemon::Agent(&words), args.service, args.install, session);
    }
    let devices = args.devices.clone().or_else(|| config.devices.clone());
    let nodes =
        up_nodes::requested_nodes(devices.as_deref(), Some(membership.node.as_str()), true)?;
    let [node] = nodes.nodes.as_slice() else {
        let what = "--devices: an agent is one node";
        return Err(Failure::new(catalogue::INVALID, what).tip("--devices sim:8xH100-80G"));
    };
    let mut ignored = args.ignore_processes.clone();
    ignored.extend(config.ignore_processes.iter().cloned());
    let settings = NodeSettings::of(&config, &ignored);
    log::start(args.log_format.or(config.log_format).unwrap_or(LogFormat::Text))?;
    let served = serve_agent(membership, &folder, node, &settings);
    crate::systemd::stopping();
    match served {
        Ok(AgentEnd::Stopped) => Ok(Exit::OK),
        Ok(AgentEnd::Refused(problem)) => Err(Failure::from(gpool_client::Error::Problem(problem))),
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
fn join(
    server: &str,
    token: &str,
    folder: &std::path::Path,
    session: &Session,
) -> Result<Membership> {
    let now = Timestamp::new(unix_ms());
    if let Some(known) = Membership::read(folder).map_err(not_joined)? {
        match known.renew(folder, now) {
            Ok(renewed) => {
                let (node, server) = (&renewed.node, &renewed.server);
                let what = format!("this machine is node {node} of {server} already");
                session.screen.note(&what);
                return Ok(renewed);
            }
            // It was removed there, so it joins again.
            Err(NotJoined::Refused(gpool_client::Error::Problem(problem)))
                if problem.status == 401 => {}
            Err(error) => return Err(not_joined(error)),
        }
    }
    let joined = Membership::join(server, token, folder, now).map_err(not_joined)?;
    session.screen.note(&format!("this machine is node {} of {}", joined.node, joined.server));
    Ok(joined)
}

fn known(folder: &std::path::Path) -> Result<Membership> {
    Membership::read(folder).map_err(not_joined)?.ok_or_else(|| {
        Failure::new(errors::NOT_STARTED, "this machine has not joined the cluster of a server")
            .why(format!("{} has no membership.json", folder.display()))
            .tip("gpool nodes add NAME   (on the server; prints the command to join)")
    })
}

fn not_joined(error: NotJoined) -> Failure {
    match error {
        NotJoined::Refused(error) => Failure::from(error),
        NotJoined::Address(why) => Failure::new(catalogue::INVALID, format!("--join: {why}")),
        other @ NotJoined::OtherServer { .. } => {
            Failure::new(catalogue::NOT_TRUSTED, other.to_string())
                .tip("gpool nodes add NAME   (on the server; prints a new command)")
        }
        other @ NotJoined::File { .. } => Failure::new(errors::BAD_DIRECTORY, other.to_string())
            .tip("remove the file, and join again"),
    }
}
