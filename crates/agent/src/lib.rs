//! The agent of one node. It carries out the server's orders (`gpool_node::converge` works out the
//! actions) and reports the state of the node. It does not decide where jobs run, and starts tasks
//! through shepherds, which outlive it (`gpool_shepherd`).

#![forbid(unsafe_code)]

mod accounts;
mod adopt;
mod agent;
mod assignments;
mod away;
mod config;
mod devices;
mod divide;
mod division;
mod done;
mod enforcement;
mod engine;
mod facts;
mod folders;
mod grow;
mod idle;
mod images;
mod input;
mod isolation;
mod job_files;
mod launch;
mod lease;
mod lend;
mod listener;
mod login;
mod moves;
mod orphans;
mod pending_launch;
mod recent;
mod remap;
mod results;
mod runner;
mod secrets;
mod shared_facts;
mod shares;
mod shepherds;
mod streams;
mod takeover;
mod task_state;
mod telemetry;
#[cfg(feature = "fuzzing")]
pub mod testing;
mod topology;
mod wake;

pub use accounts::UserRule;
pub use agent::{Agent, AgentHandle, StartError};
pub use config::AgentConfig;
