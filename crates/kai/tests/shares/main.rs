//! The division of shares and the rule of reclaim, with KAI's rules and with those of preset `fair`
//! side by side: public cases, invariants over random trees, and own cases for rules that the
//! public ones do not cover.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test says what it means by its name")]

mod both;
mod division;
mod outside;
mod promises;
mod reclaim;
mod taken_back;
