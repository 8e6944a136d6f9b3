//! Slurm: the flags of the commands that create jobs, and `#SBATCH` lines.

mod chosen;
pub mod flags;
pub mod moment;
pub mod parts;
pub mod shape;
pub mod translate;
pub mod values;
mod variables;
