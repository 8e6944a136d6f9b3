//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod array_files;
mod bar;
mod caller;
mod chosen;
mod clock;
mod conda;
mod directives;
mod env_file;
mod errors;
mod eta;
mod failure;
mod flags;
mod json;
mod keys;
mod labelled;
mod list;
mod listing;
mod marks;
mod moment;
mod python;
mod ranges;
mod reason;
mod reference;
mod request;
mod safe;
mod screen;
mod script;
mod script_directives;
mod slurm_moment;
mod table;
mod values;
mod watch;
mod words;
mod yaml;
