//! Tests of the command line from outside: its flags, its output and its texts, and the binary
//! without a server.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

mod arrays;
mod binary;
mod cli;
mod config;
mod console_keys;
mod doctor_service;
mod edit_text;
mod flags;
mod forward;
mod help;
#[path = "../e2e/here.rs"]
mod here;
mod history_footer;
mod history_states;
mod keys;
mod log;
mod man;
#[path = "../../../../xtask/src/markers.rs"]
mod markers;
mod outcome;
mod place;
#[path = "../e2e/harness/program.rs"]
mod program;
mod project;
mod projects;
mod queue_states;
mod refused_flags;
mod refused_shims;
mod refused_words;
mod rendering;
mod report_hints;
mod security;
mod signal;
mod sim;
mod systemd;
mod texts;
mod things;
mod topics;
mod up;
mod verbs;
mod words;
