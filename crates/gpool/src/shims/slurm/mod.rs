//! Slurm: what its commands and the `#SBATCH` lines of scripts are here.

pub mod flags;
pub mod translate;
mod values;
