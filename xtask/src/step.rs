//! Runs another program as one step of a command: with an announcement, without standard input, in
//! the root of the repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand};

/// The root folder of the workspace.
///
/// # Panics
/// Never: this package is in a folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the package lies inside the workspace")
        .to_owned()
}

/// The folders of crates: the product's, and those for tests, simulation and measurement.
pub const CRATES: [&str; 2] = ["crates", "testing"];

/// The packages of this repository.
///
/// # Errors
/// If cargo cannot read them.
pub fn metadata() -> anyhow::Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps();
    command.exec().context("reading cargo metadata")
}

/// The cargo that started this program, so that a step never changes the toolchain.
pub fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    command(program, arguments)
}

/// A program from `PATH`.
pub fn command(program: impl Into<OsString>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program.into());
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// Prints the title of a step to standard error.
pub fn announce(title: &str) {
    eprintln!("\n== {title}");
}

/// Runs a step to its end and returns whether it succeeded.
///
/// # Errors
/// If the program cannot be started at all.
pub fn succeeds(title: &str, mut command: Command) -> anyhow::Result<bool> {
    announce(title);
    let status = command
        .status()
        .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
    Ok(status.success())
}
