//! The division of shares and the rules of reclaim: cases from outside, promises over random
//! trees, and own cases for what the others do not reach.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test says what it means by its name")]

mod division;
mod outside;
mod promises;
mod reclaim;
mod taken_back;
