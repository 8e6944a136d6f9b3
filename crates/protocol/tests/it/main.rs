//! Tests of the protocol's messages and frames.

mod frame;
mod golden;
mod order;
