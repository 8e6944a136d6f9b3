//! Forecasts of starts, and of changes that would let jobs start sooner, in scenarios.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test says what it means by its name")]

mod changes;
mod corpus;
mod estimates;
mod learnt;
mod play;
mod properties;
mod rig;
mod table;
