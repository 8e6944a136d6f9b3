//! Tests of imports.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod bombs;
mod table;
