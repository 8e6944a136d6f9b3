//! Job requests in the form of other schedulers: their flags and the directives of their scripts,
//! parsed and translated. Each flag has a row in a table that defines its treatment; none is
//! ignored silently. The crate `compat` has their commands.

pub mod flag;
pub mod gflow;
pub mod mail;
pub mod slurm;
pub mod translated;
