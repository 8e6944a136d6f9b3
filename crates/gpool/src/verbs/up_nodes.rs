//! The nodes for `gpool up` to start agents for, and their names.

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_device::{DevicesArg, Ignore, NodesArg};
use gpool_model::NodeName;
use gpool_wire::catalogue;

/// The nodes that `--devices` describes. `name` is from the settings unless `has_name`.
///
/// # Errors
/// The value is not valid, or a name is given for nodes that have names.
pub fn requested_nodes(
    devices: Option<&str>,
    name: Option<&str>,
    has_name: bool,
) -> Result<NodesArg> {
    let devices = devices.unwrap_or("nvml");
    let own = NodeName::new(name.map_or_else(host_name, |name| Ok(name.to_owned()))?);
    let parsed = DevicesArg::parse(devices).and_then(|arg| arg.nodes(&own));
    let nodes = parsed.map_err(|error| invalid(format!("--devices: {error}")))?;
    if nodes.are_named && has_name {
        return Err(invalid(format!("--name: {devices} sets the names of its nodes"))
            .tip(format!("gpool up --devices {devices}")));
    }
    match nodes.nodes.as_slice() {
        [first, _, ..] if !first.name.is_file_name() => Err(invalid(format!(
            "--name: {:?} is not a valid prefix for the names of several nodes",
            own.as_str()
        ))
        .why("a name has letters, digits, dots, dashes and underscores, and begins with a letter")
        .tip(format!("gpool up --devices '{devices}' --name n"))),
        _ => Ok(nodes),
    }
}

/// Refuses a list of GPUs without a node if there are several nodes.
///
/// # Errors
/// There are several nodes and such a list.
pub fn refuse_gpus_of_several(nodes: &NodesArg, gpus: Option<&str>) -> Result<()> {
    match (nodes.nodes.as_slice(), gpus) {
        ([first, _, ..], Some(gpus)) => {
            let n_nodes = nodes.nodes.len();
            Err(invalid(format!("--gpus is for one node, and there are {n_nodes}"))
                .tip(format!("gpool gpus allow --node {} {gpus}   (after the start)", first.name)))
        }
        _ => Ok(()),
    }
}

fn invalid(what: String) -> Failure {
    Failure::new(catalogue::INVALID, what)
}

fn host_name() -> Result<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // The first part of a host name is the usual name of a machine.
    match name.split('.').next() {
        Some(short) if !short.is_empty() => Ok(short.to_owned()),
        _ => {
            Err(Failure::new(errors::USAGE, "this machine has no name").tip("gpool up --name lab1"))
        }
    }
}

/// A number is a process id; any other text is the name of a program.
pub fn ignored(processes: &[String]) -> Ignore {
    let mut ignore = Ignore::default();
    for process in processes {
        match process.parse() {
            Ok(pid) => {
                ignore.pids.insert(pid);
            }
            Err(_) => {
                ignore.names.insert(process.clone());
            }
        }
    }
    ignore
}
