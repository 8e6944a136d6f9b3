//! Other schedulers for their users: the commands of Slurm and gflow by their own names, and taking
//! over a queue of gflow. Each flag has a row in a table that says what becomes of it; none is
//! ignored silently. What makes a job request of their flags is in `gpool_cli::foreign`.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries all that is said about it, and failing is no hot path"
)]

use std::ffi::OsStr;
use std::path::Path;

use shim::Shim;

mod gflow;
pub mod import;
pub mod shim;
pub mod slurm;

/// Every command.
pub static SHIMS: &[Shim] = &[
    slurm::SBATCH,
    slurm::SRUN,
    slurm::SALLOC,
    slurm::SQUEUE,
    slurm::SCANCEL,
    slurm::SCONTROL,
    slurm::SINFO,
    slurm::SACCT,
    slurm::SEFF,
    gflow::GFLOWD,
    gflow::GBATCH,
    gflow::GRUN,
    gflow::GQUEUE,
    gflow::GINFO,
    gflow::GJOB,
    gflow::GCANCEL,
    gflow::GCTL,
    gflow::GSTATS,
];

/// The command of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Shim> {
    SHIMS.iter().find(|shim| shim.name == name)
}

/// The command as which this program was called, by the name of its file.
#[must_use]
pub fn called_as(first_word: &OsStr) -> Option<&'static Shim> {
    find(Path::new(first_word).file_name()?.to_str()?)
}
