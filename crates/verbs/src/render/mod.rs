//! Text output. Pure: data in, text out; no module reads a clock or writes to a stream.

pub mod audit;
pub mod calibration;
pub mod contexts;
pub mod cost;
pub mod events;
pub mod history;
pub mod history_by;
pub mod job;
pub mod mig;
pub mod notifications;
pub mod pools;
pub mod projects;
pub mod recovery;
pub mod report;
pub mod secrets;
pub mod status;
pub mod tokens;
pub mod up;
pub mod usage;
pub mod waste;
pub mod why;

// Lists that the full-screen view shows too.
pub use gpool_cli::render::{arrays, gpus, hours, jobs, life};
