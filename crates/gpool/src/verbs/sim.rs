//! `gpool sim`: what happens to simulated devices. It edits the control file of a server's
//! simulated devices, which can be edited by hand as well; real devices are out of its reach.

use std::io::ErrorKind;
use std::path::Path;

use clap::{Args, Subcommand};
use gpool_device::{Breakage, ControlError, Query, SimControl, SimProcess};
use gpool_model::Bytes;
use gpool_wire::catalogue;

use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::serve::CONTROL_FILE;
use crate::session::Session;

/// Let something happen to simulated GPUs: processes, memory, faults, a driver that hangs
#[derive(Debug, Clone, Args)]
pub struct SimArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Put a process on a GPU that gpool did not start
    AddProcess {
        /// Index of the GPU
        gpu: usize,
        /// Process id
        #[arg(long)]
        pid: u32,
        /// Memory it uses there
        #[arg(long, value_name = "SIZE", value_parser = gpool_model::parse::bytes)]
        memory: Option<Bytes>,
        /// Its program
        #[arg(long)]
        name: Option<String>,
        /// Its owner
        #[arg(long)]
        user: Option<String>,
    },
    /// Take a process off a GPU
    RemoveProcess {
        /// Index of the GPU
        gpu: usize,
        /// Process id
        #[arg(long)]
        pid: u32,
    },
    /// Use memory besides that of processes; 0B for none
    UseMemory {
        /// Index of the GPU
        gpu: usize,
        /// How much
        #[arg(value_name = "SIZE", value_parser = gpool_model::parse::bytes)]
        memory: Bytes,
    },
    /// Set how busy a GPU is
    Utilize {
        /// Index of the GPU
        gpu: usize,
        /// Per cent
        #[arg(value_parser = per_cent)]
        percent: u32,
    },
    /// Break a GPU
    Break {
        /// Index of the GPU
        gpu: usize,
        /// It is gone from the bus, not only faulty
        #[arg(long)]
        lost: bool,
        /// What it reports
        #[arg(long)]
        why: Option<String>,
    },
    /// Mend a GPU
    Heal {
        /// Index of the GPU
        gpu: usize,
    },
    /// Let the driver hang when asked about a GPU
    Hang {
        /// Index of the GPU
        gpu: usize,
    },
    /// Let the driver answer again
    Unhang {
        /// Index of the GPU
        gpu: usize,
    },
}

/// Runs it.
///
/// # Errors
/// The server has no simulated devices, or no such device; the file can't be edited.
pub fn run(args: SimArgs, session: &Session) -> Result {
    let client = session.client()?;
    let status = client.status()?;
    let gpus = client.gpus()?.items;
    if !gpus.iter().any(|gpu| gpu.uuid.starts_with("GPU-sim-")) {
        let what = "this server has no simulated GPUs";
        return Err(
            Failure::new(catalogue::NO_SUCH_DEVICE, what).tip("gpool up --devices sim:8xH100-80G")
        );
    }
    let file = Path::new(&status.state_dir).join(CONTROL_FILE);
    let control = SimControl::new(&file, gpus.len());
    act(&control, args.action).map_err(|error| refused(&error))?;
    session
        .screen
        .note("done; the agent sees use within a second, faults within 5 s, processes within 10 s");
    Ok(Exit::OK)
}

fn act(control: &SimControl, action: Action) -> std::result::Result<(), ControlError> {
    match action {
        Action::AddProcess { gpu, pid, memory, name, user } => {
            let process = SimProcess { pid, memory, name, user };
            control.add_process(gpu, process)
        }
        Action::RemoveProcess { gpu, pid } => control.remove_process(gpu, pid),
        Action::UseMemory { gpu, memory } => control.use_memory(gpu, memory),
        Action::Utilize { gpu, percent } => control.utilize(gpu, percent),
        Action::Break { gpu, lost, why } => {
            let breakage = if lost { Breakage::Lost } else { Breakage::Unhealthy };
            control.break_device(gpu, breakage, why.as_deref())
        }
        Action::Heal { gpu } => control.heal(gpu),
        Action::Hang { gpu } => control.hang(gpu, Query::All),
        Action::Unhang { gpu } => control.unhang(gpu),
    }
}

fn per_cent(text: &str) -> std::result::Result<u32, String> {
    match text.parse() {
        Ok(percent) if percent <= 100 => Ok(percent),
        _ => Err(format!("{text:?} is not a per cent; write a whole number from 0 to 100")),
    }
}

fn refused(error: &ControlError) -> Failure {
    match error {
        ControlError::File { error: why, .. } if why.kind() == ErrorKind::PermissionDenied => {
            Failure::new(catalogue::NOT_PERMITTED, error.to_string())
                .why("it belongs to the server's user, and only that user and root may edit it")
                .tip("sudo gpool sim …")
                .tip("gpool up --devices sim:8xH100-80G   (a server of your own)")
        }
        ControlError::File { error: why, .. } => {
            Failure::new(errors::NOT_WRITTEN, error.to_string()).why(why.to_string())
        }
        ControlError::Content(_) => Failure::new(catalogue::INVALID, error.to_string())
            .tip("gpool gpus   (lists the GPUs there are)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_not_be_edited_is_a_matter_of_rights() {
        let of = |kind: ErrorKind| {
            let (file, error) = ("/x/control.toml".into(), kind.into());
            refused(&ControlError::File { action: "lock", file, error })
        };
        assert_eq!(of(ErrorKind::PermissionDenied).exit().0, 5);
        assert_eq!(of(ErrorKind::StorageFull).exit().0, 1);
        let failure = refused(&ControlError::Content("there is no device 9".to_owned()));
        assert_eq!(failure.exit().0, 2);
    }
}
