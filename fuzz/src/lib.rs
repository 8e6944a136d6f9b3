//! Checks of every parser of bytes that a user, a job or another program chooses. A parser never
//! panics, accepts its own printed output again, and refuses in a short message that a terminal can
//! show. Each module checks one group of parsers with one input.
//!
//! A fuzzer runs them with generated inputs (`cargo xtask fuzz`); the tests run them with the seeds
//! in `corpus/` and with inputs that once failed, in `regressions/`.

#![forbid(unsafe_code)]

pub mod agent;
pub mod answer;
pub mod device;
pub mod frame;
pub mod import;
mod input;
pub mod job;
pub mod manifest;
pub mod protocol;
pub mod query;
pub mod scenario;
pub mod script;
pub mod value;

use std::path::PathBuf;
use std::process::ExitCode;

/// Checks one group of parsers with one input.
pub type Check = fn(&[u8]);

/// All groups, by the names of their fuzz targets.
pub const TARGETS: &[(&str, Check)] = &[
    ("agent", agent::check),
    ("answer", answer::check),
    ("device", device::check),
    ("frame", frame::check),
    ("import", import::check),
    ("job", job::check),
    ("manifest", manifest::check),
    ("protocol", protocol::check),
    ("query", query::check),
    ("scenario", scenario::check),
    ("script", script::check),
    ("value", value::check),
];

/// The program of a fuzz target. Without a fuzzer it checks the files in its arguments.
#[macro_export]
macro_rules! target {
    ($check:path) => {
        #[cfg(feature = "fuzzer")]
        libfuzzer_sys::fuzz_target!(|input: &[u8]| $check(input));

        #[cfg(not(feature = "fuzzer"))]
        fn main() -> std::process::ExitCode {
            $crate::try_files($check)
        }
    };
}

/// Checks the files in the arguments; a panic ends the program, as it would end the fuzzer.
#[must_use]
pub fn try_files(check: Check) -> ExitCode {
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        match std::fs::read(&path) {
            Ok(input) => check(&input),
            Err(error) => {
                eprintln!("error: can't read {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
