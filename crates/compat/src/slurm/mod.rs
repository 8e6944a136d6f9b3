//! Slurm: its commands, and the `#SBATCH` lines of scripts.

use gpool_cli::foreign::slurm::flags;

use crate::shim::{Family, Shim};

pub(crate) mod arrays;
pub(crate) mod cells;
mod letters;
mod sacct;
mod salloc;
mod sbatch;
mod scancel;
mod scontrol;
pub(crate) mod scontrol_show;
pub(crate) mod scontrol_update;
mod seff;
pub(crate) mod select;
mod sinfo;
pub(crate) mod sprio;
pub(crate) mod squeue;
mod sreport;
pub mod sreport_lines;
mod srun;
pub mod sshare;
pub mod step;
mod table;
mod tres;

/// Submits a script.
pub const SBATCH: Shim =
    Shim { name: "sbatch", family: Family::Slurm, run: sbatch::run, spoken: &[&flags::SBATCH] };
/// Runs a command as a job step or as a job.
pub const SRUN: Shim =
    Shim { name: "srun", family: Family::Slurm, run: srun::run, spoken: &[&flags::SRUN] };
/// Allocates resources and runs a command.
pub const SALLOC: Shim =
    Shim { name: "salloc", family: Family::Slurm, run: salloc::run, spoken: &[&flags::SALLOC] };
/// Lists jobs that have not ended.
pub const SQUEUE: Shim =
    Shim { name: "squeue", family: Family::Slurm, run: squeue::run, spoken: &[&squeue::SPOKEN] };
/// Ends jobs.
pub const SCANCEL: Shim =
    Shim { name: "scancel", family: Family::Slurm, run: scancel::run, spoken: &[&scancel::SPOKEN] };
/// Shows jobs, nodes and partitions, and changes jobs and nodes.
pub const SCONTROL: Shim =
    Shim { name: "scontrol", family: Family::Slurm, run: scontrol::run, spoken: scontrol::SPOKEN };
/// Lists nodes.
pub const SINFO: Shim =
    Shim { name: "sinfo", family: Family::Slurm, run: sinfo::run, spoken: &[&sinfo::SPOKEN] };
/// Lists ended and running jobs with their usage.
pub const SACCT: Shim =
    Shim { name: "sacct", family: Family::Slurm, run: sacct::run, spoken: &[&sacct::SPOKEN] };
/// Reports how efficiently a job used its resources.
pub const SEFF: Shim =
    Shim { name: "seff", family: Family::Slurm, run: seff::run, spoken: &[&seff::SPOKEN] };
/// Reports GPU time of the cluster, of accounts and of users.
pub const SREPORT: Shim =
    Shim { name: "sreport", family: Family::Slurm, run: sreport::run, spoken: &[&sreport::SPOKEN] };
/// Shows weights, recent usage and fair shares.
pub const SSHARE: Shim =
    Shim { name: "sshare", family: Family::Slurm, run: sshare::run, spoken: &[&sshare::SPOKEN] };
/// Shows the sort keys of pending jobs.
pub const SPRIO: Shim =
    Shim { name: "sprio", family: Family::Slurm, run: sprio::run, spoken: &[&sprio::SPOKEN] };
