//! Tests of the crate in one binary. Those of the API see it as its callers do: a real server on a
//! real socket, and an agent that pretends.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that can't go on should stop where it is"
)]

mod access;
mod address;
mod agents;
mod alert;
mod asker;
mod audit;
mod case;
mod cluster;
mod connected;
mod contract;
mod cost;
mod framing;
mod guard;
mod history;
mod identity;
mod idle;
mod input;
mod inspect;
mod jobs;
mod kept;
mod limits;
mod listing;
mod live;
mod lives;
mod machines;
mod mail;
mod network;
mod network_table;
mod otherwise;
mod places;
mod pool;
mod reads;
mod reservations;
mod rig;
mod run;
mod shapes;
mod sign;
mod streams;
mod subscriptions;
mod table;
mod usage;
mod usage_of_jobs;
