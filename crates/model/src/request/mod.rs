//! Requests of users: a job, and changes to one.

pub mod edit;
pub mod job;
mod parts;
