//! Job requests in the words of other schedulers: their flags and the directives of their scripts,
//! read and translated. Each flag has a row in a table that says what becomes of it; none is
//! ignored silently. Their commands are in the crate `compat`.

pub mod flag;
pub mod gflow;
pub mod mail;
pub mod slurm;
pub mod translated;
