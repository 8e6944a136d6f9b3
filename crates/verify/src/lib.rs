//! An independent check of plans and states against the invariants.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]
