//! Tests of the tables of other schedulers' flags, and the page that is made of them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod compat;
