//! The division of shares and the rule of reclaim, by KAI's rules and by those of preset `fair`, so
//! that each departure is beside the rule that it departs from: public cases, promises over random
//! trees, and our own cases for rules that the public ones do not reach.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test says what it means by its name")]

mod both;
mod division;
mod outside;
mod promises;
mod reclaim;
mod taken_back;
