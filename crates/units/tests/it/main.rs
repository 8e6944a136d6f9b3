//! Tests of the public items of the crate, in one binary.

mod escape;
mod gang;
mod group;
mod hostlist;
mod id;
mod indexes;
mod label;
mod objective;
mod parse;
mod placeholder;
mod positions;
mod rare;
mod unit;
