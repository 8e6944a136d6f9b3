//! What holds of every parser of bytes that a user, a job or another program chooses: it never
//! panics, what it takes it takes again after it was printed, and what it refuses it refuses in a
//! few words that a terminal can show. Each module tries one group of parsers with one input.
//!
//! A fuzzer runs them with inputs of its own (`cargo xtask fuzz`); the tests run them with the
//! seeds in `corpus/` and with what once broke them, in `regressions/`.

#![forbid(unsafe_code)]

pub mod agent;
pub mod answer;
pub mod device;
pub mod frame;
mod input;
pub mod job;
pub mod query;
pub mod scenario;
pub mod script;
pub mod value;

use std::path::PathBuf;
use std::process::ExitCode;

/// Tries one group of parsers with one input.
pub type Check = fn(&[u8]);

/// Every group, by the name of its fuzz target.
pub const TARGETS: &[(&str, Check)] = &[
    ("agent", agent::check),
    ("answer", answer::check),
    ("device", device::check),
    ("frame", frame::check),
    ("job", job::check),
    ("query", query::check),
    ("scenario", scenario::check),
    ("script", script::check),
    ("value", value::check),
];

/// The program of a fuzz target. Without a fuzzer in it, it tries the files that it is given.
#[macro_export]
macro_rules! target {
    ($check:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|input: &[u8]| $check(input));

        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::try_files($check)
        }
    };
}

/// Tries the files that the command line names; a panic ends it, as it would end the fuzzer.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Every input that is kept for a target.
    fn kept(target: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for folder in ["corpus", "regressions"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(target);
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            files.extend(entries.map(|entry| entry.expect("the folder can be read").path()));
        }
        files.sort();
        files
    }

    #[test]
    fn what_once_broke_a_parser_no_longer_does() {
        for (target, check) in TARGETS {
            let files = kept(target);
            assert!(!files.is_empty(), "{target} has no seeds");
            for file in files {
                // Which input it was is not in the panic.
                println!("{}", file.display());
                check(&std::fs::read(&file).expect("the file can be read"));
            }
        }
    }

    #[test]
    fn every_target_has_a_program_and_every_folder_a_target() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("it is there");
        for (target, _) in TARGETS {
            let program = format!("name = \"{target}\"\npath = \"fuzz_targets/{target}.rs\"\n");
            assert!(manifest.contains(&program), "{target} has no program");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        for place in ["corpus", "regressions"] {
            let Ok(entries) = std::fs::read_dir(folder.join(place)) else { continue };
            for entry in entries {
                let name = entry.expect("the folder can be read").file_name();
                let known = TARGETS.iter().any(|(target, _)| name == *target);
                assert!(known, "{place}/{} is of no target", name.display());
            }
        }
    }
}
