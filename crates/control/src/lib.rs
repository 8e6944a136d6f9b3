//! The state machine: events in, commits and effects out.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]
