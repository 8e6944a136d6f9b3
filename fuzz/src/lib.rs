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
mod input;
pub mod job;
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
    ("job", job::check),
    ("query", query::check),
    ("scenario", scenario::check),
    ("script", script::check),
    ("value", value::check),
];

/// The program of a fuzz target. Without a fuzzer it checks the files in its arguments.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// All stored inputs of a target.
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
    fn seeds_and_regressions_pass() {
        for (target, check) in TARGETS {
            let files = kept(target);
            assert!(!files.is_empty(), "{target} has no seeds");
            for file in files {
                // The panic does not name the input.
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
