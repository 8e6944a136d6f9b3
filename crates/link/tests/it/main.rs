//! Tests of links.

mod local;
