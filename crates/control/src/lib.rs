//! The state machine: events in, commits and effects out.
