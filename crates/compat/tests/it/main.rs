//! Tests of the tables of other schedulers' flags, and of the page that is generated from them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod compat;
