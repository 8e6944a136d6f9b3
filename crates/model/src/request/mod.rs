//! What users ask for: a job, and changes to one.

pub mod edit;
pub mod job;
