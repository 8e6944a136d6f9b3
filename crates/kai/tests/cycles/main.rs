//! Scenarios of whole cycles: the public ones from the folder `shared` beside the repository, and
//! invariants of all cycles.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test says what it means by its name")]

mod by_fair;
mod large;
mod order_rules;
mod outside;
mod place_rules;
mod random;
mod reading;
mod small;
mod trial_rules;
