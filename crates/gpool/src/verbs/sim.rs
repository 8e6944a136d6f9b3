//! `gpool sim`: changes simulated devices. It edits the control file of the server's simulated
//! devices, which can also be edited by hand; real devices are not affected.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

use clap::{Args, Subcommand};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_device::{Breakage, ControlError, Query, SimControl, SimProcess};
use gpool_model::{Bytes, NodeName};
use gpool_wire::{Gpu, catalogue};

use crate::serve::{CONTROL_FILE, node_folder};

#[derive(Debug, Clone, Args)]
pub struct SimArgs {
    #[command(subcommand)]
    action: SimAction,
}

#[derive(Debug, Clone, Subcommand)]
enum SimAction {
    /// Add a process that gpool did not start to a GPU
    AddProcess {
        /// Index of the GPU, e.g. 3; with several nodes e.g. lab1:3
        gpu: GpuArg,
        /// Process ID
        #[arg(long)]
        pid: u32,
        /// Memory of the process on the GPU
        #[arg(long, value_name = "SIZE", value_parser = gpool_model::parse::bytes)]
        memory: Option<Bytes>,
        /// Name of the program
        #[arg(long)]
        name: Option<String>,
        /// User of the process
        #[arg(long)]
        user: Option<String>,
    },
    /// Remove a process from a GPU
    RemoveProcess {
        /// Index of the GPU, e.g. 3; with several nodes e.g. lab1:3
        gpu: GpuArg,
        /// Process ID
        #[arg(long)]
        pid: u32,
    },
    /// Set the memory in use outside of processes
    UseMemory {
        /// Index of the GPU, e.g. 3; with several nodes e.g. lab1:3
        gpu: GpuArg,
        /// Amount of memory, e.g. 20G; 0B for none
        #[arg(value_name = "SIZE", value_parser = gpool_model::parse::bytes)]
        memory: Bytes,
    },
    /// Set the utilization of a GPU
    Utilize {
        /// Index of the GPU, e.g. 3; with several nodes e.g. lab1:3
        gpu: GpuArg,
        /// Utilization in percent
        #[arg(value_parser = per_cent)]
        percent: u32,
    },
    /// Break a GPU
    Break {
        /// Index of the GPU, e.g. 3; with several nodes e.g. lab1:3
        gpu: GpuArg,
        /// Remove it from the bus instead of making it faulty
        #[arg(long)]
        lost: bool,
        /// Error text that the GPU reports
        #[arg(long)]
        why: Option<String>,
    },
    /// Repair a GPU
    Heal {
        /// Index of the GPU, e.g. 3; with several nodes e.g. lab1:3
        gpu: GpuArg,
    },
    /// Make the driver hang on requests about a GPU
    Hang {
        /// Index of the GPU, e.g. 3; with several nodes e.g. lab1:3
        gpu: GpuArg,
    },
    /// Make the driver answer again
    Unhang {
        /// Index of the GPU, e.g. 3; with several nodes e.g. lab1:3
        gpu: GpuArg,
    },
}

/// A GPU on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GpuArg {
    /// The node; `None` means the only one.
    node: Option<String>,
    index: usize,
}

impl FromStr for GpuArg {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (node, index) = match text.rsplit_once(':') {
            Some((node, index)) => (Some(node.to_owned()), index),
            None => (None, text),
        };
        let index = index.parse().map_err(|_| "write 0, or with its node n1:0".to_owned())?;
        Ok(Self { node, index })
    }
}

impl SimAction {
    fn gpu(&self) -> &GpuArg {
        match self {
            Self::AddProcess { gpu, .. }
            | Self::RemoveProcess { gpu, .. }
            | Self::UseMemory { gpu, .. }
            | Self::Utilize { gpu, .. }
            | Self::Break { gpu, .. }
            | Self::Heal { gpu }
            | Self::Hang { gpu }
            | Self::Unhang { gpu } => gpu,
        }
    }
}

/// Runs the verb.
///
/// # Errors
/// The server has no simulated devices, or no such device; the file can't be edited.
pub fn run(args: SimArgs, session: &Session) -> Result {
    session.refuse_remote("sim")?;
    let client = session.client()?;
    let status = client.status()?;
    let gpus = client.gpus()?.items;
    let node = node(&gpus, args.action.gpu())?;
    let state_dir = Path::new(&status.state_dir);
    let file = node_folder(state_dir, &NodeName::new(node), true).join(CONTROL_FILE);
    let here = gpus.iter().filter(|gpu| gpu.node == node);
    let control = SimControl::new(&file, here.filter_map(|gpu| gpu.index.try_into().ok()));
    act(&control, args.action).map_err(|error| refused(&error))?;
    session
        .screen
        .note("done; the agent reports usage within 1 s, faults within 5 s, processes within 10 s");
    Ok(Exit::OK)
}

/// The named node, or the only one with simulated devices.
fn node<'a>(gpus: &'a [Gpu], asked: &GpuArg) -> Result<&'a str> {
    let simulated = gpus.iter().filter(|gpu| gpu.is_simulated());
    let nodes: BTreeSet<&str> = simulated.map(|gpu| gpu.node.as_str()).collect();
    let there = || nodes.iter().copied().collect::<Vec<_>>().join(", ");
    match (&asked.node, nodes.first(), nodes.len()) {
        (_, None, _) => {
            let what = "this server has no simulated GPUs";
            let tip = "gpool up --devices sim:8xH100-80G";
            Err(Failure::new(catalogue::NO_SUCH_DEVICE, what).tip(tip))
        }
        (Some(name), ..) => nodes.get(name.as_str()).copied().ok_or_else(|| {
            let what = format!("there is no node {name:?} with simulated GPUs");
            let near = gpool_wire::json::nearest(name, nodes.iter().copied());
            let failure = Failure::new(catalogue::NO_SUCH_NODE, what)
                .why(format!("the choices are {}", there()));
            near.map_or(failure.clone(), |near| failure.tip(format!("{near}:{}", asked.index)))
        }),
        (None, Some(only), 1) => Ok(only),
        (None, Some(first), _) => {
            let what = format!("GPU {} is on several nodes; give one of {}", asked.index, there());
            let tip = format!("{first}:{}", asked.index);
            Err(Failure::new(catalogue::INVALID, what).tip(tip))
        }
    }
}

fn act(control: &SimControl, action: SimAction) -> std::result::Result<(), ControlError> {
    match action {
        SimAction::AddProcess { gpu, pid, memory, name, user } => {
            let process = SimProcess { pid, memory, name, user };
            control.add_process(gpu.index, process)
        }
        SimAction::RemoveProcess { gpu, pid } => control.remove_process(gpu.index, pid),
        SimAction::UseMemory { gpu, memory } => control.use_memory(gpu.index, memory),
        SimAction::Utilize { gpu, percent } => control.utilize(gpu.index, percent),
        SimAction::Break { gpu, lost, why } => {
            let breakage = if lost { Breakage::Lost } else { Breakage::Unhealthy };
            control.break_device(gpu.index, breakage, why.as_deref())
        }
        SimAction::Heal { gpu } => control.heal(gpu.index),
        SimAction::Hang { gpu } => control.hang(gpu.index, Query::All),
        SimAction::Unhang { gpu } => control.unhang(gpu.index),
    }
}

fn per_cent(text: &str) -> std::result::Result<u32, String> {
    match text.parse() {
        Ok(percent) if percent <= 100 => Ok(percent),
        _ => Err(format!("{text:?} is not a percentage; write a whole number from 0 to 100")),
    }
}

/// The failure of an edit of the control file.
#[must_use]
pub fn refused(error: &ControlError) -> Failure {
    match error {
        ControlError::File { error: why, .. } if why.kind() == ErrorKind::PermissionDenied => {
            Failure::new(catalogue::NOT_PERMITTED, error.to_string())
                .why("it belongs to the user of the server; only that user and root may change it")
                .tip("sudo gpool sim …")
                .tip("gpool up --devices sim:8xH100-80G   (a server of your own)")
        }
        ControlError::File { error: why, .. } => {
            Failure::new(errors::NOT_WRITTEN, error.to_string()).why(why.to_string())
        }
        ControlError::Content(_) => {
            Failure::new(catalogue::INVALID, error.to_string()).tip("gpool gpus   (lists all GPUs)")
        }
    }
}
