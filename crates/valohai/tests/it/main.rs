//! Tests of the parser of valohai.yaml.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod limits;
mod oracle;
mod pipelines;
mod requests;
mod tasks;
