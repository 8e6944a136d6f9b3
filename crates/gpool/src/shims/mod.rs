//! What people bring along from other schedulers: their commands by their own names, and the
//! flags in their scripts. Each flag stands in a table that says what becomes of it; nothing is
//! silently ignored.

pub mod flag;
pub mod gflow;
pub mod slurm;
pub mod translated;
