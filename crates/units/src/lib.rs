//! IDs, units, sets of indexes, and how users write them: the smallest words of gpool.
//!
//! `gpool-model` exports all of them: other crates import them from there.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::float_arithmetic)]

pub mod enforcement;
pub mod escape;
pub mod file_pattern;
pub mod gang;
pub mod group;
pub mod hostlist;
pub mod id;
pub mod indexes;
pub mod kind;
pub mod label;
pub mod objective;
pub mod parse;
pub mod placeholder;
pub mod positions;
pub mod rare;
pub mod topology;
pub mod unit;
