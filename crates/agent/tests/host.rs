//! Stands in until it is written.
fn main() {}
