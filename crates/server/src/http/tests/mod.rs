//! The API as its callers see it: a real server on a real socket, and an agent that pretends.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that can't go on should stop where it is"
)]

mod contract;
mod framing;
mod identity;
mod input;
mod jobs;
mod limits;
mod listing;
mod places;
mod rig;
mod shapes;
mod streams;
mod table;
