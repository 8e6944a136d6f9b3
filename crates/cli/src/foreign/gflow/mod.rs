//! gflow: the flags of its commands that make jobs, and its `# GFLOW` lines.

pub mod flags;
mod ranges;
pub mod translate;
