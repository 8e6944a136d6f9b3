//! The HTTP API of a server: identity of callers, limits, routes.
//! It has no state of the cluster and makes no decisions; the core of the server does.

#![forbid(unsafe_code)]

// In builds without the API document, its macros generate nothing.
#[cfg(not(feature = "openapi"))]
extern crate gpool_schema_off as utoipa;

mod actions;
pub mod api;
pub mod asker;
pub mod attach;
mod audit;
mod authority;
mod budgets;
mod bulk;
pub mod changes;
pub mod classes;
mod cluster;
pub mod connection;
pub mod connections;
mod context;
pub mod contract;
mod cost;
mod device;
pub mod device_list;
#[cfg(feature = "openapi")]
mod document;
mod dump;
mod elements;
mod events;
pub mod evictions;
pub mod extract;
mod files;
mod found;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gpu_use;
mod groups;
mod guard;
mod health;
mod history;
mod idempotency;
mod job_event;
mod job_metrics;
mod jobs;
mod later;
mod life;
mod listing;
mod logs;
mod meters;
mod metrics;
mod mig;
mod movable;
mod node_changes;
mod notify;
mod output;
mod page;
mod policy;
mod pools;
mod process;
mod projects;
mod recovery;
pub mod reservations;
pub mod router;
pub mod routes;
mod script;
mod secrets;
mod sessions;
mod simulate;
mod simulated;
mod submit;
mod subscriptions;
mod tenure;
mod tokens;
mod usage;
pub mod usage_history;
mod users;
mod waste;
pub mod way;
mod why;
mod why_nodes;

#[cfg(feature = "openapi")]
pub use document::openapi_json;
