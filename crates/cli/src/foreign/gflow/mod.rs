//! gflow: the flags of the commands that create jobs, and `# GFLOW` lines.

pub mod flags;
pub mod ranges;
pub mod translate;
