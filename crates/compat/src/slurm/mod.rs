//! Slurm: its commands, and the `#SBATCH` lines of scripts.

use gpool_cli::foreign::slurm::flags;

use crate::shim::{Family, Shim};

pub(crate) mod arrays;
pub(crate) mod cells;
pub(crate) mod format;
pub(crate) mod hostlist;
mod input_variables;
mod job_record;
mod json;
mod json_accounting;
mod json_job;
mod json_nodes;
pub(crate) mod node_cells;
mod node_record;
pub(crate) mod origin;
mod parts;
mod record;
mod sacct;
pub(crate) mod sacct_fields;
mod sacctmgr;
mod sacctmgr_fields;
mod salloc;
mod sbatch;
mod scancel;
mod scontrol;
mod scontrol_more;
mod scontrol_show;
pub(crate) mod scontrol_update;
mod seff;
pub(crate) mod select;
mod sinfo;
pub(crate) mod sinfo_columns;
pub(crate) mod sprio;
pub(crate) mod squeue;
pub(crate) mod squeue_columns;
mod sreport;
pub mod sreport_lines;
mod srun;
pub mod sshare;
mod sstat;
mod states;
mod steps;
mod table;
pub(crate) mod times;
pub(crate) mod tres;

/// Submits a script.
pub const SBATCH: Shim =
    Shim { name: "sbatch", family: Family::Slurm, run: sbatch::run, spoken: &[&flags::SBATCH] };
/// Runs a command as a job step or as a job.
pub const SRUN: Shim =
    Shim { name: "srun", family: Family::Slurm, run: parts::run, spoken: &[&flags::SRUN] };
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
/// Shows accounts, users and associations.
pub const SACCTMGR: Shim = Shim {
    name: "sacctmgr",
    family: Family::Slurm,
    run: sacctmgr::run,
    spoken: &[&sacctmgr::SPOKEN],
};
/// Shows the usage of running jobs.
pub const SSTAT: Shim =
    Shim { name: "sstat", family: Family::Slurm, run: sstat::run, spoken: &[&sstat::SPOKEN] };
