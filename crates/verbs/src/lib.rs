//! The verbs that only ask a server, through the API: each is a file with its arguments and a
//! function that runs it. [`render`] turns answers into text.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

pub mod attach;
pub mod audit;

pub mod budget;
pub mod ca;
pub mod console;
pub mod context;
pub mod cost;
pub mod digest;
pub mod download;
pub mod drain;
pub mod edit;
pub mod edit_text;
pub mod events;
pub mod exec;
pub mod extend;
pub mod forward;
pub mod gpus;
mod hidden;
pub mod import;
pub mod install_shims;
pub mod keys;
pub mod lab;
pub mod login;
pub mod mcp;
pub mod mig;
pub mod nodes;
pub mod note;
pub mod notify;
pub mod on_jobs;
pub mod open;
mod other_program;
pub mod outcome;
mod page_format;
pub mod policy;
pub mod pool;
pub mod prio;
pub mod project;
pub mod quota;
pub mod reasons;
pub mod release;
pub mod render;
pub mod report;
pub mod requeue;
pub mod reserve;
pub mod retry;
pub mod run;
pub mod secret;
pub mod sessions;
pub mod shell;
pub mod shim;
pub mod show;
pub mod signal;
pub mod simulate;
mod simulate_if;
pub mod status;
pub mod submit;
pub mod sweep;
mod sweep_show;
pub mod token;
pub mod toml_file;
pub mod usage;
pub mod user;
pub mod wait;
pub mod waste;
pub mod why;
pub mod yields;

pub use page_format::PageFormat;
