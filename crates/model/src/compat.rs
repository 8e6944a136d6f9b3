//! Other schedulers whose variables a job may ask to find in its environment. Only says which;
//! the agent makes them.

use serde::{Deserialize, Serialize};

/// Another scheduler, by the variables that its jobs know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compat {
    /// `SLURM_JOB_ID` and its like.
    Slurm,
    /// `GFLOW_ARRAY_TASK_ID` and `GFLOW_JOB_ID`.
    Gflow,
    /// `VH_EXECUTION_ID` and its like.
    Valohai,
}

impl Compat {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Slurm, Self::Gflow, Self::Valohai];

    /// As users and records write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Gflow => "gflow",
            Self::Valohai => "valohai",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|compat| compat.as_str() == name)
    }
}
