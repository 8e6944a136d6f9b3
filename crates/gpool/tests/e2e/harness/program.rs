//! The program under test.

use std::path::PathBuf;

/// `gpool` of this package, or the one beside the program of the package that uses this harness.
pub fn program() -> PathBuf {
    let built = option_env!("CARGO_BIN_EXE_gpool").or(option_env!("CARGO_BIN_EXE_gpool-lab"));
    let program = PathBuf::from(built.unwrap()).with_file_name("gpool");
    assert!(program.is_file(), "no {}: cargo build --package gpool", program.display());
    program
}
