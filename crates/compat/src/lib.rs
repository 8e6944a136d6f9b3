//! Compatibility with other schedulers: the commands of Slurm, gflow and Valohai under their own
//! names, and the import of a gflow queue. Each flag of Slurm and gflow has a row in a table that
//! defines its treatment; none is ignored silently. `gpool_cli::foreign` translates their flags
//! into job requests.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

use std::ffi::OsStr;
use std::path::Path;

use shim::Shim;

mod gflow;
pub mod import;
pub mod shim;
pub mod slurm;
mod valohai;

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
    slurm::SREPORT,
    slurm::SSHARE,
    slurm::SPRIO,
    slurm::SACCTMGR,
    slurm::SSTAT,
    gflow::GFLOWD,
    gflow::GBATCH,
    gflow::GRUN,
    gflow::GQUEUE,
    gflow::GINFO,
    gflow::GJOB,
    gflow::GCANCEL,
    gflow::GCTL,
    gflow::GSTATS,
    valohai::VH,
];

#[must_use]
pub fn find(name: &str) -> Option<&'static Shim> {
    SHIMS.iter().find(|shim| shim.name == name)
}

/// The command that this program was called as, by the name of its file.
#[must_use]
pub fn called_as(first_word: &OsStr) -> Option<&'static Shim> {
    find(Path::new(first_word).file_name()?.to_str()?)
}

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::slurm::arrays::{in_row, ranges};
    pub use crate::slurm::format::{Format, Part, Width};
    pub use crate::slurm::hostlist::{compressed, expanded, sort as sort_hosts};
    pub use crate::slurm::origin::of as origin;
    pub use crate::slurm::sacct_fields::FIELDS as SACCT_FIELDS;
    pub use crate::slurm::scontrol_update::limit;
    pub use crate::slurm::select::ids;
    pub use crate::slurm::sinfo_columns::COLUMNS as SINFO_COLUMNS;
    pub use crate::slurm::sprio::{Scale, factor};
    pub use crate::slurm::squeue::{LONG, START, USUAL};
    pub use crate::slurm::squeue_columns::COLUMNS as SQUEUE_COLUMNS;
    pub use crate::slurm::sreport_lines as sreport;
    pub use crate::slurm::sshare;
    pub use crate::slurm::tres::{Resources, cpus_per_task, n_tasks};
}
