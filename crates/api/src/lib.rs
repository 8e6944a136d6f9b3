//! The HTTP API of a server, and the pages of its dashboard: identity of callers, limits, routes.
//! It has no state of the cluster and makes no decisions; the core of the server does.

#![forbid(unsafe_code)]

// In builds without the API document, its macros generate nothing.
#[cfg(not(feature = "openapi"))]
extern crate gpool_schema_off as utoipa;

mod accept;
mod actions;
mod api;
mod asker;
mod attach;
mod audit;
mod authority;
mod budgets;
mod bulk;
mod changes;
mod classes;
mod cluster;
mod connection;
mod connections;
mod context;
mod contract;
mod cost;
mod device;
mod device_list;
#[cfg(feature = "openapi")]
mod document;
mod dump;
mod elements;
mod entrance;
mod events;
mod evictions;
mod extract;
mod found;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gpu_use;
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
mod network;
mod node_changes;
mod notify;
mod output;
mod page;
mod pages;
mod policy;
mod pools;
mod process;
mod projects;
mod recovery;
mod reservations;
mod router;
pub mod routes;
mod script;
mod sessions;
mod simulate;
mod simulated;
mod submit;
mod subscriptions;
mod tenure;
#[cfg(feature = "fuzzing")]
pub mod testing;
mod tokens;
mod usage;
mod usage_history;
mod users;
mod waste;
mod way;
mod why;
mod why_nodes;

pub use accept::serve;
#[cfg(feature = "openapi")]
pub use document::openapi_json;
