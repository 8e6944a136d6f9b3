//! `gpool notebook-host`: the program of a notebook's job.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use gpool_cli::failure::{Failure, Result};
use gpool_wire::catalogue;

use crate::address::Address;
use crate::program::{PORT, Program, SOCKET};
use crate::watch;

/// The name of the verb.
pub const VERB: &str = "notebook-host";
/// The longest path of a socket.
/// Source: unix(7), `sun_path`.
const PATH_MAX: usize = 107;

#[derive(Debug, Clone, Args)]
pub struct HostArgs {
    /// Path that answers once the program is ready
    #[arg(long, value_name = "PATH")]
    ready: Option<String>,
    /// Watch the web server at this address
    #[arg(long, value_name = "JSON", requires = "parent")]
    watch: Option<String>,
    /// Process of the web server
    #[arg(long, value_name = "PID")]
    parent: Option<i32>,
    /// Whether the web server is Jupyter
    #[arg(long)]
    jupyter: bool,
    /// Command of the web server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Starts the watch and becomes the web server; or is the watch.
///
/// # Errors
/// There is no web server, or it can't be started.
pub fn run(args: &HostArgs) -> Result {
    if let (Some(address), Some(parent)) = (&args.watch, args.parent) {
        let address = serde_json::from_str(address).map_err(|error| invalid(error.to_string()))?;
        let watched =
            watch::Watched { address, ready: args.ready.clone(), is_jupyter: args.jupyter, parent };
        watched.run();
        return Ok(gpool_cli::exit::Exit::OK);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let program = Program::of(&args.command, &path, rustix::process::geteuid().is_root());
    let program = program.map_err(invalid)?;
    let (address, words) = match program.needs_port() {
        true => {
            let port = free_port().map_err(|error| invalid(format!("no port: {error}")))?;
            (Address::Port(port), program.filled(PORT, &port.to_string()))
        }
        false => {
            let socket = socket()?;
            let words = program.filled(SOCKET, &socket);
            (Address::Socket(socket), words)
        }
    };
    let own = std::env::current_exe().map_err(|error| invalid(error.to_string()))?;
    let mut watch = Command::new(own);
    watch.arg(VERB).arg("--watch").arg(serde_json::to_string(&address).unwrap_or_default());
    watch.arg("--parent").arg(std::process::id().to_string()).stdin(Stdio::null());
    watch.args(args.ready.iter().flat_map(|path| ["--ready", path]));
    watch.args(program.is_jupyter.then_some("--jupyter"));
    watch.spawn().map_err(|error| invalid(format!("can't watch the notebook: {error}")))?;
    let error = Command::new(&words[0]).args(&words[1..]).exec();
    Err(invalid(format!("can't start {}: {error}", words[0])))
}

/// A port that is free now. Another program may take it before the web server does.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The path for a socket: in the folder of the run, or below `/tmp` if that path is too long.
fn socket() -> Result<String> {
    let folder = std::env::var_os("GPOOL_DIR").map(PathBuf::from);
    let own = folder.map(|folder| folder.join("notebook.sock").display().to_string());
    if let Some(path) = own.filter(|path| path.len() <= PATH_MAX) {
        return Ok(path);
    }
    let folder = Path::new("/tmp").join(format!("gpool-{}", gpool_client::new_key()));
    let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(|error| invalid(format!("can't make {}: {error}", folder.display())))?;
    Ok(folder.join("notebook.sock").display().to_string())
}

fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(catalogue::INVALID, what)
}
