//! gflow: what its commands and the `# GFLOW` lines of scripts are here.

pub mod flags;
pub mod translate;
