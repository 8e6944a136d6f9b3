//! gflow: the flags of the commands that create jobs, and `# GFLOW` lines.

pub mod flags;
mod ranges;
pub mod translate;
