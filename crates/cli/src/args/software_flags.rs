//! Flags for the software environment of a job and its setup.

use clap::Args;
use gpool_wire::field::heading;

use super::values::{self, join_lists};

/// The software environment of a job.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = heading::PROGRAM)]
pub struct SoftwareFlags {
    /// File with environment variables, one NAME=VALUE per line
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub env_file: Vec<String>,
    /// Conda environment, by name or folder
    #[arg(long, value_name = "NAME", value_parser = values::filled)]
    pub conda: Option<String>,
    /// Use the uv project of the working folder
    #[arg(long)]
    pub uv: bool,
    /// Folder of a Python virtual environment
    #[arg(long, value_name = "FOLDER", value_parser = values::filled)]
    pub venv: Option<String>,
    /// Environment modules to load, e.g. cuda/12.4,gcc
    #[arg(long, value_name = "NAMES", value_parser = values::filled)]
    pub module: Vec<String>,
    /// Shell command that prepares the job, without GPUs and before it waits for them
    #[arg(long, value_name = "COMMAND", value_parser = values::filled)]
    pub setup: Option<String>,
}

impl SoftwareFlags {
    /// Fills in values from `other` where there are none here. Any Python here replaces any Python
    /// there.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let has_python = self.conda.is_some() || self.uv || self.venv.is_some();
        let python = if has_python { Self::default() } else { other.clone() };
        Self {
            env_file: join_lists(other.env_file, self.env_file),
            conda: self.conda.or(python.conda),
            uv: self.uv || python.uv,
            venv: self.venv.or(python.venv),
            module: join_lists(other.module, self.module),
            setup: self.setup.or(other.setup),
        }
    }
}
