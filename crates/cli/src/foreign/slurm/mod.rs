//! Slurm: the flags of its commands that make jobs, and its `#SBATCH` lines.

mod chosen;
pub mod flags;
pub mod shape;
pub mod translate;
pub mod values;
