//! Tests of the crate's public parts.

mod balance;
mod measure;
mod plan;
mod replicas;
mod scale;
