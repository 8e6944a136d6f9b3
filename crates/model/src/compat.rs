//! Other schedulers that a job may ask environment variables of. This module only names them; the
//! agent sets the variables.

use serde::{Deserialize, Serialize};

/// Another scheduler that a job may ask environment variables of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compat {
    /// `SLURM_JOB_ID` and similar.
    Slurm,
    /// `GFLOW_ARRAY_TASK_ID` and `GFLOW_JOB_ID`.
    Gflow,
    /// `VH_EXECUTION_ID` and similar.
    Valohai,
}

impl Compat {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Slurm, Self::Gflow, Self::Valohai];

    /// The name in records and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Gflow => "gflow",
            Self::Valohai => "valohai",
        }
    }

    /// The value with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|compat| compat.as_str() == name)
    }
}
