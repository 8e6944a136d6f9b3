//! Slurm: the flags of the commands that create jobs, and `#SBATCH` lines.

pub mod flags;
pub mod moment;
mod node_constraints;
pub mod parts;
pub mod shape;
pub mod translate;
pub mod values;
mod variables;
